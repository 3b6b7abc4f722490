"""What is forgotten when Kafka no longer has all that a state was made of (P6.3): up to when, and what follows from it. Pure."""

from dataclasses import dataclass

from include.contract.exit_class import ExitClass
from include.contract.stream_spec import StreamSpec
from include.start_plan.event_times import tell_span, tell_time
from include.start_plan.objection import Objection, Verdict

NAMED_AT_MOST = 3  # windows; of more the first and the last


@dataclass(frozen=True)
class Windows:
    """Of event time: how long each is, how far one begins after the other, and whether only its final value is given out."""

    length_ms: int
    slide_ms: int
    is_final: bool = False

    def kept(self, forgotten_ms: int, watermark_ms: int) -> range:
        """The starts of those that are open and began by then: nobody can make their value anew."""
        first_open = (watermark_ms - self.length_ms) // self.slide_ms * self.slide_ms + self.slide_ms
        return range(first_open, forgotten_ms + 1, self.slide_ms)


def windows_of(spec: StreamSpec) -> Windows | None:
    """None where rows come out of dedupe as they are."""
    if spec.aggregate is None:
        return None
    length, slide = spec.aggregate.window, spec.aggregate.slide or spec.aggregate.window
    is_final = spec.aggregate.emit == "final"
    return Windows(int(length.total_seconds() * 1000), int(slide.total_seconds() * 1000), is_final)


def forgets(forgotten_ms: int, watermark_ms: int, windows: Windows | None, *, has_dedupe: bool) -> Objection:
    through = tell_time(forgotten_ms)
    follows = [f"duplicates of events up to {through} would pass"] if has_dedupe else []
    follows += [_told(windows, windows.kept(forgotten_ms, watermark_ms))] if windows else []
    said = (
        "Kafka, or the log of the sink, no longer has all that the state was made of (the watermark is "
        f"{tell_time(watermark_ms)}): {'; '.join(follows)}."
    )
    next_step = (
        "First try recover_stream with mode restore, as a dry run (make plan STATE=restore): a backup that fits forgets nothing. "
        f"Otherwise, to go on so: mode forget (with make run: FORGET={through})."
    )
    return Objection(Verdict.NEEDS_APPROVAL, ExitClass.RETENTION_GAP, said, next_step)


def _told(windows: Windows, kept: range) -> str:
    if not kept:
        return "no window that is open is touched"
    if len(kept) == 1:
        return f"window {_span(windows, kept[0])} {'is never given out' if windows.is_final else 'keeps its last value'}"
    follows = "are never given out" if windows.is_final else "keep their last value"
    if len(kept) > NAMED_AT_MOST:
        return f"{len(kept):,} windows from {_span(windows, kept[0])} to {_span(windows, kept[-1])} {follows}"
    return f"windows {', '.join(_span(windows, start) for start in kept)} {follows}"


def _span(windows: Windows, start_ms: int) -> str:
    return tell_span(start_ms, start_ms + windows.length_ms)
