"""What an executor's own Python raised, which Spark passes on as text: said again as the failure that it was."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from include.contract.exit_class import ExitClass, StreamFailure
from include.tidemarks.sink_failure import at_sink
from include.topics.topic import AclMissing, BrokerSilent
from jobs.kafka.producers import ProducerFenced
from jobs.kafka.slot_attempt import SlotBroken

if TYPE_CHECKING:
    from jobs.kafka.kafka_sink import KafkaTopicSink

SAID = re.compile(r"^(?:jobs\.kafka|include\.topics)\.[\w.]*?(\w+): (.+)$", re.MULTILINE)
STATE = "Each slot was committed as a whole or not at all; the marks say which."


class SlotFailed(StreamFailure):
    """A slot's transaction came to no end."""

    exit_class = ExitClass.INFRASTRUCTURE


KINDS: dict[str, type[StreamFailure]] = {kind.__name__: kind for kind in (AclMissing, SlotBroken)}


@contextmanager
def named(sink: "KafkaTopicSink") -> Iterator[None]:
    with at_sink(sink.stream, sink.sink, sink.place):
        yield


@contextmanager
def unless_fenced(sink: "KafkaTopicSink") -> Iterator[None]:
    """A newer driver's fence ends our transactions: that is how we would hear of it."""
    try:
        with named(sink):
            yield
    except (BrokerSilent, ProducerFenced, PySparkException) as error:
        if newer := _newer(sink):
            raise newer from error
        if isinstance(error, ProducerFenced):
            raise SlotFailed(f"Sink {sink.stream}.{sink.sink}: {error}", state=STATE, sink=sink.sink) from error
        if isinstance(error, PySparkException) and (said := SAID.search(str(error))):
            kind = KINDS.get(said[1], SlotFailed)
            raise kind(f"Sink {sink.stream}.{sink.sink}, on an executor: {said[2]}", state=STATE, sink=sink.sink) from error
        raise


def _newer(sink: "KafkaTopicSink") -> Exception | None:
    """A broker that does not say who writes must not hide what went wrong."""
    with suppress(BrokerSilent):
        return sink.taken_over()
    return None
