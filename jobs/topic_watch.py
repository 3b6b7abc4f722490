"""Whether the topic is still the one that the driver took over (P1.6): neither made anew, nor shorter than what was delivered."""

from collections.abc import Mapping

from include.contract.exit_class import ExitClass, StreamFailure
from include.topics.topic import Topic


class TopicChanged(StreamFailure):
    """The topic was deleted, and perhaps made anew, while the stream ran."""

    exit_class = ExitClass.TOPIC_CHANGED


class TopicWentBack(StreamFailure):
    """The topic ends before what was delivered of it: the broker's disks were put back from an older copy (P1.6)."""

    exit_class = ExitClass.TOPIC_CHANGED


class TopicWatch:
    def __init__(self, topic: Topic, topic_id: str) -> None:
        self._topic = topic
        self._topic_id = topic_id

    def check(self) -> None:
        there = self._topic.lasting_id() or "that of no topic at all"
        if there != self._topic_id:
            raise TopicChanged(
                f"Topic {self._topic.name} was deleted while the stream ran: its id was {self._topic_id}, now it is {there}.",
                state="The sinks hold what they committed before.",
                topic_id=there,
            )


def refuse_if_shorter(latest: Mapping[int, int], delivered: Mapping[int, int]) -> None:
    for number, end in delivered.items():
        if end > latest.get(number, end):
            raise TopicWentBack(
                f"Partition {number} was delivered up to {end:,}, but Kafka now ends at {latest[number]:,}.",
                state="Every batch is whole; the records that come next at those offsets would not be the next records.",
                partition=number,
                offset=end,
            )
