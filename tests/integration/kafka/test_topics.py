"""Before anything is touched, the topics of a sink are looked at: what exactly-once needs, and what the file asks for."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from include.contract.environment import load_environment
from include.contract.exit_class import ExitClass
from include.contract.stream_spec import KafkaOutput
from include.local_stack import kafka
from include.local_stack.stack import Stack
from include.tidemarks.sink_state import RowsWithoutTidemark
from include.topics.topic import AclMissing
from jobs.kafka import topic_checks
from jobs.kafka.outputs import OutputRefused
from jobs.kafka.topics_there import OutputTopics, TopicUnfit
from tests.integration.kafka.test_changed_topics import topics
from tests.outputs import OutputStream
from tests.streams import exit_class_of

WITH_ACLS = """\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
"""
ANYBODY, SOMEBODY_ELSE = "User:ANONYMOUS", "User:else"


@pytest.fixture
def stream(stack: Stack, tmp_path: Path) -> OutputStream:
    return OutputStream(stack, tmp_path)


def make(stream: OutputStream, topic: str, partitions: int = 1, **settings: str) -> None:
    admin = stream.admin()
    config = {name.replace("_", "."): value for name, value in settings.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(15)


def refused(stream: OutputStream, spark: SparkSession, says: str, why: type[Exception] = TopicUnfit) -> None:
    """And nothing was begun: not even a fence."""
    there = topics(stream)
    with pytest.raises(why, match=says) as refusal:
        stream.run(spark)
    assert exit_class_of(refusal.value) is ExitClass.CONFIGURATION
    assert not stream.quarantine.exists()
    assert topics(stream) == there


def test_topics_that_do_not_fit_are_refused_before_anything_is_touched(stream: OutputStream, spark: SparkSession) -> None:
    stream.send(9)
    stream.more = {"create": None}
    stream.write_file()
    refused(stream, spark, rf"There is no topic {stream.output}\..*sinks\.out\.create")
    stream.more = {"transaction_timeout": "16 minutes"}
    stream.write_file()
    refused(stream, spark, r"sinks\.out\.transaction_timeout is 960 seconds, but the broker allows 900")
    stream.more = {"explode": "day", "key": None}
    stream.write_file()
    refused(stream, spark, r"sinks\.out\.explode is 'day', a column of type date: that is no array", OutputRefused)
    stream.more = {"value": "amount_cents"}
    stream.write_file()
    refused(stream, spark, r"sinks\.out\.value is 'amount_cents', .* that is neither text nor bytes", OutputRefused)
    make(stream, stream.output, 2)
    stream.more = {"create": None, "partition": 2}
    stream.write_file()
    refused(stream, spark, f"Topic {stream.output} has no partition 2: it has 2")
    make(stream, f"{stream.output}.tidemarks", 4, cleanup_policy="delete")
    stream.more = {}
    stream.write_file()
    refused(stream, spark, r"\.tidemarks has cleanup\.policy=delete: tidemarks would be deleted by age")
    producer = stream.producer()
    producer.produce(stream.output, b"of somebody")
    assert producer.flush(30) == 0
    refused(stream, spark, f"{stream.output} of kafka_main has rows but no tidemark", RowsWithoutTidemark)


def test_topics_are_made_as_the_file_asks_and_as_tidemarks_need_them(stream: OutputStream, spark: SparkSession) -> None:
    stream.more = {"create": {"partitions": 5}, "slots": 4}
    stream.write_file()
    stream.send(9)
    stream.run(spark)
    listed = stream.admin().list_topics(timeout=10).topics
    names = (stream.output, f"{stream.output}.tidemarks", f"{stream.output}.rejects")
    assert [len(listed[name].partitions) for name in names] == [5, 1 + 4, 1]
    assert stream.problems_of_outputs() == []


def test_where_the_loss_of_a_broker_counts_topics_must_survive_it(stream: OutputStream) -> None:
    def look() -> None:
        settings = KafkaOutput(kind="kafka", connection="kafka_main", topic=stream.output)
        OutputTopics(stream.stack.kafka.connection.address, "out", settings).check(must_be_durable=True)

    make(stream, stream.output)
    make(stream, f"{stream.output}.tidemarks", 2, cleanup_policy="compact", min_insync_replicas="2")
    with pytest.raises(TopicUnfit, match=rf"Topic {stream.output} has unclean\S+=false and min\.insync\.replicas=1"):
        look()
    stream.configure(stream.output, min_insync_replicas="2")
    look()
    stream.configure(f"{stream.output}.tidemarks", unclean_leader_election_enable="true")
    with pytest.raises(TopicUnfit, match=rf"Topic {stream.output}\.tidemarks has unclean\S+=true"):
        look()


def test_topics_that_are_made_there_survive_it(stream: OutputStream) -> None:
    said = {"kind": "kafka", "connection": "kafka_main", "topic": stream.output, "create": {"partitions": 2}}
    made = OutputTopics(stream.stack.kafka.connection.address, "out", KafkaOutput.model_validate(said))
    made.make(source_partitions=3, must_be_durable=True)
    made.check(must_be_durable=True)


def test_so_must_the_topic_that_is_read(stream: OutputStream, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the environment says."""
    local = load_environment("local")
    durable = local.model_copy(update={"kafka": local.kafka.model_copy(update={"durable_topics": True})})
    monkeypatch.setattr(topic_checks, "load_environment", lambda: durable)
    refused(stream, spark, rf"Topic {stream.name} has unclean\S+=false and min\.insync\.replicas=1")


def test_a_missing_acl_is_told_by_operation_and_resource(
    small_stack: Stack, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "SERVER_PROPERTIES", kafka.SERVER_PROPERTIES + WITH_ACLS)
    small_stack.up()
    stream = OutputStream(small_stack, tmp_path)
    stream.send(9)
    stream.run(spark)
    for operation in (AclOperation.DESCRIBE, AclOperation.WRITE):
        allow(stream, ResourceType.TOPIC, f"{stream.output}.tidemarks", ANYBODY, operation)
    needs(stream, spark, rf"an ACL for Describe, DescribeConfigs and Read on Topic {stream.output}\.tidemarks")
    for operation in (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS):
        allow(stream, ResourceType.TOPIC, f"{stream.output}.tidemarks", ANYBODY, operation)
    allow(stream, ResourceType.TOPIC, stream.output, SOMEBODY_ELSE, AclOperation.WRITE)
    for operation in (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS):
        allow(stream, ResourceType.TOPIC, stream.output, ANYBODY, operation)
    stream.send(2000)  # the broker may answer before the last of them is handed over
    needs(stream, spark, f"an ACL for Write, Read and Describe on Topic {stream.output}")
    allow(stream, ResourceType.TRANSACTIONAL_ID, stream.name, SOMEBODY_ELSE, AclOperation.WRITE)
    needs(stream, spark, f"an ACL for Write and Describe on TransactionalId {stream.name}")
    assert len(stream.outputs()) == 9


def needs(stream: OutputStream, spark: SparkSession, says: str) -> None:
    with pytest.raises(AclMissing, match=says) as refusal:
        stream.run(spark)
    assert exit_class_of(refusal.value) is ExitClass.CONFIGURATION


def allow(stream: OutputStream, kind: ResourceType, name: str, user: str, operation: AclOperation) -> None:
    pattern = ResourcePatternType.PREFIXED if kind is ResourceType.TRANSACTIONAL_ID else ResourcePatternType.LITERAL
    binding = AclBinding(kind, name, pattern, user, "*", operation, AclPermissionType.ALLOW)
    admin = stream.admin()
    admin.create_acls([binding])[binding].result(15)
