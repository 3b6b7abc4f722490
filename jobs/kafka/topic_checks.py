"""Whether a Kafka sink's topics are those that it can write and has written: before a start touches anything, and later."""

from pyspark.sql.types import StructType

from include.contract.connections import read_connection
from include.contract.environment import load_environment
from include.contract.places import OutputTopic
from include.contract.stream_spec import KafkaOutput, Source
from include.tidemarks.kafka_log import log_in
from include.topics.topic import Topic
from jobs.kafka.outputs import check_outputs
from jobs.kafka.topics_there import OutputTopics
from jobs.sink import SinkWentBack


def check_topics(place: OutputTopic, sink: str, settings: KafkaOutput, shape: StructType, source: Source) -> None:
    """Before anything is touched: a start that will be refused must not fence a driver that runs well."""
    check_outputs(settings, sink, shape)
    address, log = read_connection(place.connection).address, log_in(place)
    if (newest := log.newest_version()) is not None:
        check_same_output(place, sink, Topic(address, place.topic), log.commit(newest).parameters["output_id"])
    must_be_durable = load_environment().kafka.durable_topics
    OutputTopics(address, sink, settings).check(must_be_durable)
    if must_be_durable:  # a record that Kafka takes back was delivered all the same
        OutputTopics(read_connection(source.connection).address, sink, settings).check_durable(source.topic)


def check_same_output(place: OutputTopic, sink: str, output: Topic, written: str) -> None:
    """A topic that was deleted took with it what was delivered: it is not made a second time, nor is another written."""
    there = output.lasting_id()
    if there == written:
        return
    happened = f"is another topic than the one that was written: its id is {there}, was {written}" if there else "is gone"
    raise SinkWentBack(
        f"{place} {happened}.",
        state="What was delivered is gone with the topic that was deleted; nothing was written since.",
        next_step="Give the sink another topic and `from: earliest`: it gets all that Kafka still has.",
        sink=sink,
    )
