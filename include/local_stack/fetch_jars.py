"""`python -m include.local_stack.fetch_jars`: fills the jar cache, lays out Spark's classes, and says what it did."""

import sys

from include.jars.cache import cache_folder, fill_cache, missing_jars
from include.jars.class_archive import class_archive, make_class_archive
from include.jars.lock import Jar, read_jar_lock
from include.local_stack.disk import check_free_space
from include.local_stack.exit_code import exit_code_of
from include.local_stack.home import PROJECT
from include.local_stack.java import find_java
from include.local_stack.part import base_environment
from include.local_stack.progress import say, step

CACHE_BYTES = 200_000_000  # 64 MB of jars, twice while they are fetched


def main() -> int:
    missing = missing_jars(read_jar_lock())
    if missing:
        _fetch(missing)
    if not class_archive().exists():
        _lay_out_classes()
    return 0


def _fetch(missing: list[Jar]) -> None:
    cache_folder().mkdir(parents=True, exist_ok=True)
    check_free_space(cache_folder(), CACHE_BYTES, "the jars")
    with step(f"fetching {len(missing)} jar{'s' if len(missing) > 1 else ''} into {cache_folder()}"):
        fill_cache(find_java())


def _lay_out_classes() -> None:
    with step("laying out Spark's classes, so that drivers start faster"):
        made = make_class_archive({**base_environment(), "JAVA_HOME": str(find_java().parent.parent)}, PROJECT)
    if not made:
        say("    that failed, which does no harm: drivers start a few seconds later")


if __name__ == "__main__":
    sys.exit(exit_code_of(main, if_interrupted="the jars that were fetched before are kept."))
