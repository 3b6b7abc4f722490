"""Which log belongs to a place."""

from include.contract.places import DatabaseTable, Place
from include.tidemarks.commit import SinkLog
from include.tidemarks.delta_log import DeltaLog
from include.tidemarks.postgres_log import PostgresLog


def log_of(place: Place) -> SinkLog:
    return PostgresLog(place) if isinstance(place, DatabaseTable) else DeltaLog(place)
