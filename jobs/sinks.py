"""The sinks of a stream and its quarantine, each by its kind."""

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from include.contract.catalog import Stream
from include.contract.connections import read_connection
from include.contract.identity import QUARANTINE, transaction_app_id
from include.contract.places import DatabaseTable, OutputTopic, Places
from include.contract.stream_spec import DeltaMerge, KafkaOutput, LakeTable
from include.control.generations import Generation
from include.start_plan.world import World
from include.tidemarks.delta_log import DeltaLog
from include.tidemarks.sink_failure import at_sink
from include.topics.topic import Topic
from jobs.delta_transaction import DeltaTransaction
from jobs.fenced_table import FencedTable
from jobs.kafka.kafka_sink import KafkaTopicSink
from jobs.kafka.topic_checks import check_topics
from jobs.merge_table import MergeTable, check_partitions, merge_shape
from jobs.postgres.postgres_sink import PostgresTableSink, check_place
from jobs.quarantine import SCHEMA as QUARANTINE_SCHEMA
from jobs.quarantine import Quarantine
from jobs.sink import Sink
from jobs.table_shape import TableShape


class Sinks:
    def __init__(self, spark: SparkSession, stream: Stream, places: Places, schema: StructType, spec_hash: str) -> None:
        self._spark = spark
        self._stream = stream
        self._places = places
        self._schema = schema
        self._spec_hash = spec_hash

    def of(self, generation: Generation) -> tuple[Quarantine, dict[str, Sink]]:
        """In the order of fencing: the quarantine, then the sinks by name."""
        kept = self._delta(self._places.quarantine, QUARANTINE, TableShape(QUARANTINE_SCHEMA), generation)
        return Quarantine(kept, self._stream), {name: self._sink(name, generation) for name in self._places.sinks}

    def check(self, seen: World) -> None:
        """Refuses tables and topics that do not fit, before anything is touched."""
        self._check_delta(self._places.quarantine, QUARANTINE, TableShape(QUARANTINE_SCHEMA))
        for name, place in self._places.sinks.items():
            settings = self._stream.spec.sinks[name]
            held = seen.sinks[name].tidemark
            if isinstance(settings, KafkaOutput) and isinstance(place, OutputTopic):
                with at_sink(self._stream.name, name, place):
                    check_topics(place, name, settings, self._schema, self._stream.spec.source)
            elif isinstance(place, DatabaseTable) and not isinstance(settings, LakeTable | KafkaOutput):
                with at_sink(self._stream.name, name, place):
                    check_place(place, settings, self._schema, is_new=seen.sinks[name].note is None)
            elif isinstance(place, str):
                self._check_delta(place, name, self._shape(name))
            if isinstance(settings, DeltaMerge) and held is not None:
                check_partitions(settings, name, held, set(seen.topic.earliest))

    def _sink(self, name: str, generation: Generation) -> Sink:
        place, settings = self._places.sinks[name], self._stream.spec.sinks[name]
        if isinstance(settings, KafkaOutput) and isinstance(place, OutputTopic):
            read_from = self._stream.spec.source
            source = Topic(read_connection(read_from.connection).address, read_from.topic)
            of_topic = (place, self._stream.name, name, source, settings, self._schema, generation, self._spec_hash)
            return KafkaTopicSink(*of_topic, sorts_rows=self._stream.spec.is_stateful)
        if isinstance(place, DatabaseTable) and not isinstance(settings, LakeTable | KafkaOutput):
            topic = self._stream.spec.source.topic
            return PostgresTableSink(place, self._stream.name, name, topic, settings, self._schema, generation, self._spec_hash)
        if isinstance(settings, DeltaMerge):
            of_table = (str(place), self._stream.name, name, self._shape(name), generation, self._spec_hash)
            return MergeTable(settings, self._spark, *of_table)
        return self._delta(str(place), name, self._shape(name), generation)

    def _shape(self, name: str) -> TableShape:
        settings = self._stream.spec.sinks[name]
        if isinstance(settings, DeltaMerge):
            return merge_shape(settings, self._schema)
        if isinstance(settings, LakeTable):
            return TableShape(self._schema, tuple(settings.partition_by), settings.schema_changes == "add_columns")
        return TableShape(self._schema)

    def _delta(self, path: str, sink: str, shape: TableShape, generation: Generation) -> FencedTable:
        return FencedTable(self._spark, path, self._stream.name, sink, shape, generation, self._spec_hash)

    def _check_delta(self, path: str, sink: str, shape: TableShape) -> None:
        if DeltaLog(path).newest_version() is not None:
            there = DeltaTransaction(self._spark, path, transaction_app_id(self._stream.name, sink))
            shape.check(there, path, f"{sink} of {self._stream.name}")
