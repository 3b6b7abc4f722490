"""`python -m include.local_stack.fetch_jars`: fills the jar cache, and says what it did."""

import sys

from include.contract.errors import TidemarkError
from include.jars.cache import cache_folder, fill_cache, missing_jars
from include.jars.lock import read_jar_lock
from include.local_stack.disk import check_free_space
from include.local_stack.java import find_java
from include.local_stack.progress import step

CACHE_BYTES = 200_000_000  # 64 MB of jars, twice while they are fetched


def main() -> int:
    missing = len(missing_jars(read_jar_lock()))
    if not missing:
        return 0
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        check_free_space(cache_folder(), CACHE_BYTES, "the jars")
        with step(f"fetching {missing} jars into {cache_folder()}"):
            fill_cache(find_java())
    except TidemarkError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
