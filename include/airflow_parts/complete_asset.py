"""The asset of a sink: an event says how far it is proved to be complete. Read when DAG files are parsed."""

from airflow.sdk import Asset

from include.contract.catalog import read_catalog


def complete_asset(stream: str, sink: str) -> Asset:
    return Asset(name=f"{stream}.{sink} complete", uri=f"tidemark://{stream}/{sink}")


def all_complete_assets() -> list[Asset]:
    streams = read_catalog().streams.values()
    return [complete_asset(stream.name, sink) for stream in streams for sink in sorted(stream.spec.sinks)]
