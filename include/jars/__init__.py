"""The jars that PyPI does not carry: the lock that names them, the cache that holds them. Needs only the standard library."""
