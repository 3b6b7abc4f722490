"""The numbers that rule supervision and runbooks, each with its meaning; their values are read from the source."""

import ast
from datetime import timedelta

from tests.running import PROJECT

# Every number of the first three files must be here; of the others those that a person on call meets.
MEANINGS = {
    "include/supervision/restarts.py": {
        "FIRST_PAUSE": "before the second restart in a row; the first has none, each later one waits twice as long",
        "LONGEST_PAUSE": "the longest pause between two restarts",
        "LONGEST_WAIT": "the longest pause after an end as *infrastructure*",
        "LOOP_FAILURES": "so many ends of one class within `LOOP_WINDOW` stop the stream with an incident",
        "LOOP_WINDOW": "ends that are longer ago are not counted",
        "TOO_BIG_FAILURES": "so many ends in a row as *out of memory*, *killed* or *stuck* without a batch between them stop a "
        "stream that has a state with an incident: its batches are not halved",
        "HEALTHY": "a driver that lived longer forgives the failures before it",
    },
    "include/supervision/decide.py": {
        "UNSTARTED": "a launch without a process for longer is recorded as ended",
        "SILENT": "a driver on another host that was not heard of for longer is taken for gone",
        "STOP_PATIENCE": "a driver that was asked to stop and has not by then is killed, which is safe",
    },
    "include/supervision/health.py": {
        "TREND": "how far back the forecast of *catching up* and *slow* looks",
        "LONGEST_START": "a start that takes longer, and longer than `health.stuck_after`, is *stuck*",
    },
    "include/airflow_parts/supervision_tasks.py": {"LOOK_EVERY_SECONDS": "between two looks at every stream"},
    "include/supervision/outside_eye.py": {"SILENT_SECONDS": "`make status` fails when supervision has not looked for longer"},
    "include/airflow_parts/runbook.py": {
        "APPROVAL_HOURS": "an approval that nobody gave by then fails; trigger the runbook again"
    },
    "include/supervision/ground.py": {"LOCK_SECONDS": "a runbook waits so long for another act on the same stream"},
    "include/supervision/runbooks/starting.py": {
        "VERIFY_SECONDS": "a runbook waits so long for the first commit of a new driver"
    },
}
COMPLETE = list(MEANINGS)[:3]


def all_numbers() -> list[tuple[str, str, str]]:
    """Name, value, meaning."""
    return [(name, short(_constants(file)[name]), meaning) for file, named in MEANINGS.items() for name, meaning in named.items()]


def numbers_without_a_meaning() -> list[str]:
    return [f"{name} in {file}" for file in COMPLETE for name in _constants(file) if name not in MEANINGS[file]]


def short(value: timedelta | int) -> str:
    if not isinstance(value, timedelta):
        return str(value)
    seconds = int(value.total_seconds())
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds >= unit and not seconds % unit and seconds != 60:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


def _constants(file: str) -> dict[str, timedelta | int]:
    """Durations and whole numbers that a module names. Not imported, for some of the modules import Airflow."""
    body = ast.parse((PROJECT / file).read_text()).body
    named = {
        target.id: node.value for node in body if isinstance(node, ast.Assign) for target in node.targets if _is_name(target)
    }
    values = {name: _value(name, value) for name, value in named.items()}
    return {name: value for name, value in values.items() if value is not None}


def _is_name(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id.isupper()


def _value(name: str, value: ast.expr) -> timedelta | int | None:
    """None if it is neither. A number whose name ends in a unit is a duration."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "timedelta":
        return timedelta(**{str(one.arg): ast.literal_eval(one.value) for one in value.keywords})
    if not isinstance(value, ast.Constant) or not isinstance(value.value, int):
        return None
    unit = name.rpartition("_")[2].lower()
    return timedelta(**{unit: value.value}) if unit in ("seconds", "minutes", "hours") else value.value
