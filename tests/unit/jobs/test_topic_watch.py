"""What stops a stream whose topic is no longer the one it took over."""

import pytest

from jobs.topic_watch import TopicWentBack, refuse_if_shorter


def test_a_topic_that_ends_before_what_was_delivered_stops_the_stream() -> None:
    delivered = {0: 50, 1: 40}
    refuse_if_shorter({0: 50, 1: 41, 2: 0}, delivered)
    with pytest.raises(TopicWentBack, match="Partition 1 was delivered up to 40, but Kafka now ends at 30"):
        refuse_if_shorter({0: 50, 1: 30}, delivered)
