"""Looks at streams: the control database, the drivers' processes, Kafka and the sinks. Reads only."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from psycopg2.extensions import cursor as Cursor

from include.contract.catalog import Catalog, Stream
from include.contract.connections import read_connection
from include.contract.environment import Environment
from include.contract.exit_class import StreamFailure
from include.contract.fingerprint import from_snapshot, spec_hash
from include.contract.places import DatabaseTable, Place, Places
from include.control.database import ControlDatabase
from include.control.desired import Desired, Pause, read_desired, read_pause
from include.control.drivers import Launched, newest_generation, read_batches, read_ends, read_open_launches
from include.control.stream_states import StreamState, read_states
from include.supervision.launcher import Launcher
from include.supervision.observation import Driver, Lag, Limits, Observation
from include.tidemarks.postgres_connection import DatabaseDown
from include.tidemarks.sink_state import SinkState
from include.tidemarks.sink_watch import SinkWatch
from include.topics.topic import AclMissing, BrokerSilent, Topic, TopicMissing, TopicState

CHANGED = "; its stream file has changed, which applies at the next start"
GONE = "; its stream file is gone, the driver goes on until stop_stream"
BROKER_SECONDS = 2  # for an answer: a broker that is down must not keep the streams of others waiting
FRESH = timedelta(seconds=30)  # an older look tells nothing of the time since: it or we were away


class Observer:
    """Keeps a Kafka client per topic and what it saw of each sink for as long as it lives: a look then costs a few round trips
    and what was committed since the last one."""

    def __init__(self, control: ControlDatabase, environment: Environment, launcher: Launcher) -> None:
        self._control = control
        self._environment = environment
        self._launcher = launcher
        self._topics: dict[tuple[str, str], Topic] = {}
        self._watches: dict[tuple[str, str, Place], SinkWatch] = {}
        self._silent: set[str] = set()  # brokers and databases that gave no answer in this look

    def observe(self, catalog: Catalog, names: Iterable[str] | None = None) -> list[Observation]:
        """Every stream of which it is known what should be, or those that are named. Raises if the control database is down."""
        self._silent.clear()
        with self._control.transaction() as cursor:
            cursor.execute("SELECT now()")
            (now,) = cursor.fetchone() or (datetime.min,)
            desired, pause, before = read_desired(cursor), read_pause(cursor), read_states(cursor)
            wanted = [name for name in sorted(desired) if names is None or name in names]
            looks = [_Look(cursor, name, desired[name], pause, before.get(name), catalog, now) for name in wanted]
        return [self._complete(look) for look in looks]

    def _complete(self, look: "_Look") -> Observation:
        """What is not in the control database."""
        sinks: dict[str, SinkState] = {}
        lag, outage, unreadable = None, look.trouble, look.unreadable
        if look.stream is not None:
            try:
                sinks = self._sinks(look.stream)
                lag = self._lag(look.stream, sinks, look)
            except (BrokerSilent, DatabaseDown, TopicMissing, OSError) as error:
                outage = error.happened if isinstance(error, StreamFailure) else f"{type(error).__name__}: {error}."
            except StreamFailure as failure:  # not an outage: a driver ends by it, and is told what to do about it
                unreadable = failure.happened
            except Exception as error:  # noqa: BLE001 - one stream's trouble must not keep the others from being seen
                unreadable = f"{type(error).__name__}: {error}"
        drivers = tuple(Driver(one, self._is_alive(one), _has_adopted(one, sinks)) for one in look.launches)
        return look.observation(drivers, lag, outage, unreadable)

    def _is_alive(self, launched: Launched) -> bool | None:
        if launched.process is None:
            return self._launcher.find(launched.launch) is not None
        return self._launcher.is_alive(launched.process)

    def _sinks(self, stream: Stream) -> dict[str, SinkState]:
        places = Places.of(stream, self._environment)
        return {name: self._look_at(stream.name, name, place) for name, place in places.sinks.items()}

    def _look_at(self, stream: str, sink: str, place: Place) -> SinkState:
        """A database that is silent is asked once, or every stream of it would wait for it in turn."""
        database = place.connection if isinstance(place, DatabaseTable) else ""
        if database in self._silent:
            raise DatabaseDown(f"Database {database} does not answer.", state="The sinks hold their tidemarks.")
        try:
            return self._watch(stream, sink, place).look()
        except DatabaseDown:
            self._silent.add(database)
            raise

    def _watch(self, stream: str, sink: str, place: Place) -> SinkWatch:
        return self._watches.setdefault((stream, sink, place), SinkWatch(place, stream, sink))

    def _lag(self, stream: Stream, sinks: dict[str, SinkState], look: "_Look") -> Lag:
        topic = self._ask(self._topic(stream))
        marks = [state.tidemark for state in sinks.values()]
        known = [mark for mark in marks if mark is not None and mark.topic_id == topic.topic_id]
        if len(known) < len(marks):
            return Lag({}, sum(topic.stable.values()) - sum(topic.earliest.values()), look.now)
        behind = {number: min(mark.next_offset(number) for mark in known) for number in topic.stable}
        offsets = sum(max(0, end - behind[number]) for number, end in topic.stable.items())
        return Lag(behind, offsets, behind_since(look.before, look.now) if offsets else None)

    def _ask(self, topic: Topic) -> TopicState:
        if topic.address in self._silent:
            raise BrokerSilent(f"The broker at {topic.address} does not answer.", state="The sinks hold their tidemarks.")
        try:
            return topic.state()
        except AclMissing:  # of this topic alone
            raise
        except BrokerSilent:
            self._silent.add(topic.address)
            raise

    def _topic(self, stream: Stream) -> Topic:
        source = stream.spec.source
        place = read_connection(source.connection).address, source.topic
        if place not in self._topics:
            self._topics[place] = Topic(*place, answer_seconds=BROKER_SECONDS)
        return self._topics[place]


class _Look:
    """One stream, as far as the control database and its file tell."""

    def __init__(
        self,
        cursor: Cursor,
        name: str,
        desired: Desired,
        pause: Pause | None,
        before: StreamState | None,
        catalog: Catalog,
        now: datetime,
    ) -> None:
        self.name = name
        self.now = now
        self.desired = desired
        self.before = before
        self.pause = pause
        self.launches = read_open_launches(cursor, name)
        self.ends = tuple(read_ends(cursor, name))
        self.batches = tuple(read_batches(cursor, name))
        self.newest_generation = newest_generation(cursor, name)
        declared = catalog.streams.get(name)
        runs, self.unreadable = _what_runs(self.launches)
        self.stream = runs or declared
        self.trouble = None if self.stream else _no_file(name, catalog)
        self.note = (
            "" if runs is None else GONE if declared is None else CHANGED if spec_hash(runs) != spec_hash(declared) else ""
        )

    def observation(self, drivers: tuple[Driver, ...], lag: Lag | None, outage: str | None, unreadable: str) -> Observation:
        return Observation(
            stream=self.name,
            now=self.now,
            desired=self.desired,
            pause=self.pause,
            limits=Limits.of(self.stream),
            drivers=drivers,
            ends=self.ends,
            batches=self.batches,
            newest_generation=self.newest_generation,
            lag=lag,
            outage=outage,
            unreadable=unreadable,
            file_note=self.note,
        )


def behind_since(before: StreamState | None, now: datetime) -> datetime:
    """Since when there has been work, as far as somebody has looked: after an outage, a sleep or a pause that is now, or a driver
    that has worked all the time would be taken for stuck."""
    if before is None or before.behind_since is None or now - before.observed_at > FRESH:
        return now
    return before.behind_since


def _what_runs(launches: list[Launched]) -> tuple[Stream | None, str]:
    """What the newest driver was started with; and why that cannot be read, if an older version of Tidemark has written it."""
    snapshot = next((one.snapshot for one in launches if one.snapshot), None)
    if snapshot is None:
        return None, ""
    try:
        return from_snapshot(snapshot), ""
    except (ValueError, KeyError) as error:
        return None, f"What the driver was started with cannot be read: {error}"


def _has_adopted(launched: Launched, sinks: dict[str, SinkState]) -> bool:
    number = launched.generation
    return number is not None and all(
        state.tidemark is not None and state.tidemark.generation >= number for state in sinks.values()
    )


def _no_file(name: str, catalog: Catalog) -> str:
    own = [problem for problem in catalog.problems if f"/{name}.yaml" in problem.file]
    return (
        f"Its stream file is not valid: {own[0]}"
        if own
        else f"There is no config/streams/{name}.yaml any more. Put it back, or run stop_stream."
    )
