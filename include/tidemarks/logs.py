"""Which log belongs to a place."""

from collections.abc import Iterator
from contextlib import contextmanager

from include.contract.places import DatabaseTable, OutputTopic, Place
from include.tidemarks.commit import SinkLog
from include.tidemarks.delta_log import DeltaLog
from include.tidemarks.kafka_log import log_in
from include.tidemarks.postgres_log import PostgresLog


def log_of(place: Place) -> SinkLog:
    match place:
        case DatabaseTable():
            return PostgresLog(place)
        case OutputTopic():
            return log_in(place)
        case path:
            return DeltaLog(path)


@contextmanager
def looking_at(place: Place) -> Iterator[SinkLog]:
    """For several questions in a row: a database is connected to once."""
    log = log_of(place)
    if not isinstance(log, PostgresLog):
        yield log
        return
    with log.kept_open():
        yield log
