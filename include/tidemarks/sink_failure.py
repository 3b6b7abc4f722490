"""Says of which sink a database speaks: of several sinks a person must know at once which one is down."""

from collections.abc import Iterator
from contextlib import contextmanager

from include.contract.places import DatabaseTable, Place
from include.tidemarks.postgres_connection import DatabaseDown, PrivilegeMissing, StatementTooLong

OTHERS = "Every other sink holds what it has committed."


@contextmanager
def at_sink(stream: str, sink: str, place: Place) -> Iterator[None]:
    try:
        yield
    except (DatabaseDown, StatementTooLong, PrivilegeMissing) as failure:
        if "sink" in failure.evidence or not isinstance(place, DatabaseTable):
            raise
        raise type(failure)(
            f"Sink {stream}.{sink}, connection {place.connection}: {failure.happened}",
            state=f"{failure.state} {OTHERS}",
            next_step=failure.next_step,
            sink=sink,
            connection=place.connection,
            **failure.evidence,
        ) from failure
