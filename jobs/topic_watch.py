"""Whether the topic is still the one that the driver took over (P1.6): neither made anew, nor shorter than what was delivered."""

import time
from collections.abc import Mapping

from include.contract.exit_class import ExitClass, StreamFailure
from include.topics.topic import Topic, TopicMissing

MISSING_SECONDS, LOOK_SECONDS = 5, 0.5


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
        there = self._topic_id_there()
        if there != self._topic_id:
            raise TopicChanged(
                f"Topic {self._topic.name} was deleted while the stream ran: its id was {self._topic_id}, now it is {there}.",
                state="The sinks hold what they committed before.",
                topic_id=there,
            )

    def _topic_id_there(self) -> str:
        """A broker that has just started may not know a topic yet: only one that is missing for a while is gone."""
        deadline = time.monotonic() + MISSING_SECONDS
        while True:
            try:
                return self._topic.topic_id()
            except TopicMissing:
                if time.monotonic() > deadline:
                    return "that of no topic at all"
                time.sleep(LOOK_SECONDS)


def refuse_if_shorter(latest: Mapping[int, int], delivered: Mapping[int, int]) -> None:
    for number, end in delivered.items():
        if end > latest.get(number, end):
            raise TopicWentBack(
                f"Partition {number} was delivered up to {end:,}, but Kafka now ends at {latest[number]:,}.",
                state="Every batch is whole; the records that come next at those offsets would not be the next records.",
                partition=number,
                offset=end,
            )
