"""`python -m include.local_stack.fetch_jars`: fills the jar cache, and says what it did."""

import sys

from include.jars.cache import cache_folder, fill_cache, missing_jars
from include.jars.lock import read_jar_lock
from include.local_stack.disk import check_free_space
from include.local_stack.exit_code import exit_code_of
from include.local_stack.java import find_java
from include.local_stack.progress import step

CACHE_BYTES = 200_000_000  # 64 MB of jars, twice while they are fetched


def main() -> int:
    missing = missing_jars(read_jar_lock())
    if not missing:
        return 0
    cache_folder().mkdir(parents=True, exist_ok=True)
    check_free_space(cache_folder(), CACHE_BYTES, "the jars")
    with step(f"fetching {len(missing)} jar{'s' if len(missing) > 1 else ''} into {cache_folder()}"):
        fill_cache(find_java())
    return 0


if __name__ == "__main__":
    sys.exit(exit_code_of(main, if_interrupted="the jars that were fetched before are kept."))
