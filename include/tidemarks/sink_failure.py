"""Says of which sink a database or a broker speaks: of several sinks a person must know at once which one is down."""

from collections.abc import Iterator
from contextlib import contextmanager

from include.contract.places import Place
from include.tidemarks.postgres_connection import DatabaseDown, PrivilegeMissing, StatementTooLong
from include.topics.topic import BrokerSilent

OTHERS = "Every other sink holds what it has committed."


@contextmanager
def at_sink(stream: str, sink: str, place: Place) -> Iterator[None]:
    try:
        yield
    except (DatabaseDown, StatementTooLong, PrivilegeMissing, BrokerSilent) as failure:
        if "sink" in failure.evidence or isinstance(place, str):
            raise
        raise type(failure)(
            f"Sink {stream}.{sink}, connection {place.connection}: {failure.happened}",
            state=f"{failure.state} {OTHERS}",
            next_step=failure.next_step,
            sink=sink,
            connection=place.connection,
            **failure.evidence,
        ) from failure
