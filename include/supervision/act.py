"""Carries out one decision about one stream, under its lock: the only writer. Intent is written before every deed."""

import socket

from psycopg2.extensions import cursor as Cursor

from include.contract.errors import TidemarkError
from include.contract.exit_class import ExitClass
from include.control.batch_limits import note_too_big, read_limit
from include.control.database import ControlDatabase
from include.control.desired import set_desired
from include.control.drivers import read_ends, record_process
from include.control.generations import write_launch
from include.control.incidents import open_incident
from include.control.journal import write_journal
from include.control.progress import DriverExit, record_exit, request_stop
from include.processes.process_record import ProcessRecord
from include.supervision.decide import ACTOR, Act, Decision
from include.supervision.launcher import Launcher
from include.supervision.observation import Driver, Observation

TOO_BIG = (ExitClass.KILLED, ExitClass.STUCK)  # P3.9: perhaps killed by the kernel for lack of memory, or too long to end
STATE = "The batch in hand was not committed; the sinks hold their tidemarks."


class Actor:
    """Acts for supervision, or through a runbook for a person, who is then named as `asked_by`."""

    def __init__(self, control: ControlDatabase, launcher: Launcher) -> None:
        self._control = control
        self._launcher = launcher

    def act(self, decision: Decision, seen: Observation) -> None:
        """The caller holds the stream's lock, and has looked again under it."""
        match decision.act:
            case Act.START:
                self.start(seen.stream, asked_by=ACTOR, reason=decision.detail)
            case Act.ASK_TO_STOP if decision.driver:
                self.ask_to_stop(seen.stream, decision.driver, asked_by=ACTOR, reason=decision.detail)
            case Act.KILL if decision.driver:
                self._kill(decision, decision.driver, seen)
            case Act.RECORD_END if decision.driver:
                self._record_end(decision, decision.driver, seen)
            case Act.GIVE_UP:
                self._give_up(decision, seen)
            case Act.OPEN_INCIDENT:
                with self._control.transaction() as cursor:
                    _incident(cursor, decision, seen, "The driver is left as it is; no data is at risk.")

    def start(
        self, stream: str, *, asked_by: str, reason: str, approvals: dict[str, object] | None = None, request: str | None = None
    ) -> str:
        """The launch id. A request that has launched before gets the same launch, and no second driver."""
        launch = write_launch(self._control, stream, asked_by=asked_by, reason=reason, approvals=approvals or {}, request=request)
        if launch.is_new:
            self._clear_away(stream)
            process = self._begin(stream, launch.id)
            with self._control.transaction() as cursor:
                record_process(cursor, launch.id, socket.gethostname(), process, detached=True)
        return launch.id

    def _clear_away(self, stream: str) -> None:
        """A JVM that hangs after its driver has told its end would take its room for ever."""
        with self._control.transaction() as cursor:
            ended = [end.launch for end in read_ends(cursor, stream)]
        for launch in ended:
            self._launcher.kill(launch)

    def _begin(self, stream: str, launch: str) -> ProcessRecord:
        """A launch that cannot be made has ended: otherwise it would be waited for, and asked for again and again."""
        try:
            return self._launcher.start(stream, launch)
        except Exception as error:
            exit_class = ExitClass.INFRASTRUCTURE if isinstance(error, OSError) else ExitClass.CONFIGURATION
            next_step = error.next_step if isinstance(error, TidemarkError) else exit_class.next_step
            ended = DriverExit(exit_class, str(error), "No driver was started.", next_step, {"recorded_by": ACTOR})
            with self._control.transaction() as cursor:
                record_exit(cursor, launch, stream, None, ended)
            raise

    def ask_to_stop(self, stream: str, driver: Driver, *, asked_by: str, reason: str) -> None:
        generation = driver.launched.generation or 0
        with self._control.transaction() as cursor:
            request_stop(cursor, stream, generation, asked_by=asked_by, reason=reason)
            write_journal(cursor, stream, "asked to stop", actor=asked_by, generation=generation, reason=reason)

    def _kill(self, decision: Decision, driver: Driver, seen: Observation) -> None:
        with self._control.transaction() as cursor:
            generation = driver.launched.generation
            write_journal(cursor, seen.stream, "killed", actor=ACTOR, generation=generation, reason=decision.detail)
        self._launcher.kill(driver.launched.launch)
        self._record_end(decision, driver, seen)

    def _record_end(self, decision: Decision, driver: Driver, seen: Observation) -> None:
        """What is left of its processes goes too: a JVM without its Python, or the reverse, only takes room."""
        launched = driver.launched
        if driver.detached:
            self._launcher.kill(launched.launch)
        exit_class = decision.exit_class or ExitClass.UNKNOWN
        ended = DriverExit(exit_class, decision.detail, STATE, exit_class.next_step, {"recorded_by": ACTOR})
        with self._control.transaction() as cursor:
            if not record_exit(cursor, launched.launch, seen.stream, launched.generation, ended):
                return  # the driver came to speak after all
            if exit_class in TOO_BIG and seen.starts and not seen.limits.is_stateful:
                records = read_limit(cursor, seen.stream, seen.limits.records_per_batch)
                note_too_big(cursor, seen.stream, exit_class.title, seen.starts, records)
            title = exit_class.title
            write_journal(cursor, seen.stream, "exit", actor=ACTOR, generation=launched.generation, exit_class=title)

    def _give_up(self, decision: Decision, seen: Observation) -> None:
        with self._control.transaction() as cursor:
            _incident(cursor, decision, seen, "The stream is stopped; its sinks hold their tidemarks.")
            set_desired(cursor, seen.stream, running=False, set_by=ACTOR, reason=decision.detail)


def _incident(cursor: Cursor, decision: Decision, seen: Observation, state: str) -> None:
    title = decision.exit_class.title if decision.exit_class else "unknown"
    open_incident(
        cursor,
        seen.stream,
        title,
        happened=decision.detail,
        state=state,
        next_step=decision.next_step,
        evidence=decision.evidence or {},
        actor=ACTOR,
    )
