"""The states of a stream, each with what it means and what a person does about it: docs/states.md is made from this."""

from enum import Enum


class State(Enum):
    STARTING = ("starting", "A driver was launched and takes the stream over.", "Wait: half a minute is usual.")
    RUNNING = ("running", "Batches finish, and nothing waits for longer than a batch.", "Nothing.")
    IDLE = ("idle", "The driver lives, and everything in the topic is delivered.", "Nothing.")
    CATCHING_UP = ("catching up", "There is a backlog, and it shrinks; the forecast says until when.", "Wait for the forecast.")
    SLOW = ("slow", "Batches finish, but more comes in than goes out.", "Give Spark more cores, or the topic more partitions.")
    STUCK = (
        "stuck",
        "There is work, but no batch has finished within `health.stuck_after`; longer where a state is made again.",
        "Once it is restarted by itself. After that read the driver's log: what does it wait for?",
    )
    STOPPING = ("stopping", "It was asked to stop and finishes the batch in hand.", "Wait; past the deadline it is killed.")
    STOPPED = ("stopped", "It should not run, and does not.", "`start_stream` when it should; read its incident first.")
    WAITING = (
        "waiting",
        "It should run, but something that it needs is down, or has just come back.",
        "Bring back what is named; the stream goes on by itself.",
    )
    CRASH_LOOP = (
        "crash loop",
        "It failed, and is started again after a pause that doubles.",
        "Read how it ended; after five ends of one class within ten minutes it is stopped, with an incident.",
    )
    FENCED = ("fenced", "A generation that this deployment does not know writes the sinks.", "Find the other deployment.")
    UNKNOWN = ("unknown", "It cannot be told: supervision sees too little, and does nothing.", "Bring back what is named.")

    def __init__(self, title: str, meaning: str, next_step: str) -> None:
        self.title = title
        self.meaning = meaning
        self.next_step = next_step
