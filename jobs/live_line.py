"""One readable line per batch on the driver's output: how much, how fast, how far behind, and when it will have caught up."""

import time

from jobs.batch import Delivered


class LiveLine:
    def __init__(self, stream: str, generation: int, starts: dict[int, int]) -> None:
        self._title = f"{stream} generation {generation}"
        self._starts = starts
        self._topic_end: int | None = None
        self._looked_at = time.monotonic()

    def begin(self, records_per_batch: int, declared: int) -> None:
        starts = ", ".join(f"{number}: {offset:,}" for number, offset in self._starts.items())
        smaller = f", {records_per_batch:,} records a batch after it ran out of memory" if records_per_batch < declared else ""
        print(f"{self._title} begins at {starts}{smaller}", flush=True)

    def batch(self, done: Delivered, seconds: float, latest: dict[int, int], lag: int, dropped: str = "") -> None:
        """`dropped`: what a state kept out, in words."""
        if done.again:
            print(
                f"{self._title} batch {done.batch:>5}: {done.again:>9,} read again for its state in {seconds:5.1f} s", flush=True
            )
            return
        rate = done.read / seconds if seconds else 0.0
        exploded = f" as {done.outputs:,} outputs" if done.outputs not in (0, done.delivered) else ""
        kept_out = f"{f', {done.quarantined:,} quarantined' if done.quarantined else ''}{dropped}"
        print(
            f"{self._title} batch {done.batch:>5}: {done.read:>9,} read, {done.delivered:>9,} delivered{exploded}{kept_out}"
            f" in {seconds:5.1f} s ({rate:,.0f}/s), {self._forecast(rate, sum(latest.values()), lag)}",
            flush=True,
        )

    def _forecast(self, rate: float, topic_end: int, lag: int) -> str:
        """At the rate of this batch, against what arrived since the one before."""
        now = time.monotonic()
        arriving = (topic_end - self._topic_end) / (now - self._looked_at) if self._topic_end is not None else 0.0
        self._topic_end, self._looked_at = topic_end, now
        if not lag:
            return "caught up"
        if not rate:  # a batch that only raised the watermark, or that every sink has already
            return f"lag {lag:,}"
        if rate <= arriving:
            return f"lag {lag:,}, falling behind ({arriving:,.0f}/s arrive)"
        return f"lag {lag:,}, caught up in {lag / (rate - arriving):,.0f} s"
