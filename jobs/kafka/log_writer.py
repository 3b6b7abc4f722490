"""Writes the log of commits of a Kafka sink. Begun once, at the fence: a newer driver's fence ends it, and an error of which the
outcome is not known ends the driver. The next one reads what is there."""

from confluent_kafka import Producer

from include.contract.identity import tidemarks_topic, transactional_id
from include.tidemarks.kafka_records import LOG_PARTITION, LogRecord
from jobs.failpoints import Failpoint, reach
from jobs.kafka.producers import SECONDS, begin, meaning, patiently

RECORD_AND_MARKER = 2  # offsets that a transaction of one record takes


class LogWriter:
    def __init__(self, address: str, stream: str, sink: str, topic: str, timeout_ms: int) -> None:
        self._topic = topic
        self._id = transactional_id(stream, sink, None)
        self._producer: Producer = begin(address, self._id, topic, timeout_ms)
        self.end = -1  # of the log, as this writer leaves it

    def see(self, end: int) -> None:
        """The log was read up to there, after this writer began."""
        self.end = end

    def append(self, record: LogRecord) -> None:
        with meaning(self._id, self._topic):
            self._producer.begin_transaction()
            self._producer.produce(tidemarks_topic(self._topic), record.model_dump_json(), record.key, partition=LOG_PARTITION)
            self._producer.flush(SECONDS)
            reach(Failpoint.IN_TRANSACTION)
            patiently(lambda: self._producer.commit_transaction(SECONDS))
        self.end += RECORD_AND_MARKER
