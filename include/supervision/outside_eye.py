"""Looks at streams and at supervision itself from outside of Airflow: an import error or a paused DAG stops it silently."""

from dataclasses import dataclass
from datetime import UTC, datetime

from include.contract.text_table import age
from include.control.database import ControlDatabase
from include.control.desired import Pause, read_pause
from include.control.incidents import Incident, read_open_incidents
from include.control.state_health import StreamHealth, read_state_health
from include.control.stream_states import Heartbeat, StreamState, read_heartbeat, read_states
from include.supervision.table import render, render_states

SILENT_SECONDS = 180  # three of its runs


@dataclass(frozen=True)
class OutsideLook:
    text: str
    is_well: bool


def look_from_outside(control: ControlDatabase, up_seconds: float | None = None) -> OutsideLook:
    """`up_seconds`: how long Airflow has been up, if that is known; it is not blamed for the time before."""
    control.migrate()
    with control.transaction() as cursor:
        heartbeat, states = read_heartbeat(cursor), list(read_states(cursor).values())
        incidents, pause, health = read_open_incidents(cursor), read_pause(cursor), read_state_health(cursor)
    silent = _silence(heartbeat, up_seconds)
    streams = [*_streams(states), *_state_tables(health)]
    lines = [_supervision(heartbeat, silent), *_pause(pause), *streams, *(_incident(one) for one in incidents)]
    return OutsideLook("\n".join(lines), silent <= SILENT_SECONDS and not incidents)


def _silence(heartbeat: Heartbeat | None, up_seconds: float | None) -> float:
    return min(heartbeat.age_seconds if heartbeat else float("inf"), up_seconds if up_seconds is not None else float("inf"))


def _supervision(heartbeat: Heartbeat | None, silent: float) -> str:
    last = f"last looked {age(heartbeat.age_seconds)} ago" if heartbeat else "has not looked yet"
    if silent <= SILENT_SECONDS:
        return f"supervision {last}: {heartbeat.verdict}" if heartbeat else f"supervision {last}"
    return (
        f"SUPERVISION IS SILENT: it {last}. Drivers go on, but nobody brings back one that dies. "
        "See in Airflow whether supervise_streams is paused or cannot be imported, and whether the scheduler runs."
    )


def _pause(pause: Pause | None) -> list[str]:
    return [f"ALL STREAMS ARE PAUSED by {pause.set_by}: {pause.reason}. resume_all lifts it."] if pause else []


def _streams(states: list[StreamState]) -> list[str]:
    return [render(states, datetime.now(UTC))] if states else ["no streams"]


def _state_tables(health: list[StreamHealth]) -> list[str]:
    return ["", render_states(health, datetime.now(UTC)), ""] if health else []


def _incident(incident: Incident) -> str:
    return (
        f"INCIDENT {incident.id} of {incident.stream} since {incident.opened_at:%Y-%m-%d %H:%M} UTC, {incident.title}: "
        f"{incident.happened} Next step: {incident.next_step}"
    )
