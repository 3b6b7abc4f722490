"""Gives every end of a driver its class, from what was raised: our own failures know theirs, Spark's are told by their marks."""

import re
import signal

import psycopg2

from include.contract.errors import TidemarkError
from include.contract.exit_class import ExitClass, StreamFailure
from include.control.progress import DriverExit
from jobs.delta_transaction import CONFLICTS

# Of a stateful stream: state that cannot be read, or does not fit the query. What failed to be *written* is not damage.
STATE_DAMAGE = (
    r"CANNOT_LOAD_STATE_STORE|STATE_STORE_(COMMIT_VALIDATION|INVALID_CONFIG_AFTER|\w*SCHEMA|\w*ROW_FORMAT)|STDS_"
    r"|STREAMING_STATEFUL_OPERATOR_NOT_MATCH|RocksDBException: (Corruption|NotFound)"
    r"|ChecksumException.*/(state|offsets|commits|sources)/"
)
FOREIGN_MARKS = (  # the first that is found decides
    (ExitClass.OUT_OF_MEMORY, r"OutOfMemoryError|GC overhead limit|Cannot allocate memory|STORE_PROVIDER_OUT_OF_MEMORY"),
    (ExitClass.INFRASTRUCTURE, r"No space left|Too many open files|UNRELEASED_THREAD_ERROR"),  # also while state is loaded
    # The SQL standard's class of data exceptions: an expression failed on a value.
    (ExitClass.POISON, r"SQLSTATE: 22"),
    (ExitClass.RETENTION_GAP, r"KAFKA_DATA_LOSS|OffsetOutOfRange|data may have been lost"),
    (ExitClass.TOPIC_CHANGED, r"UnknownTopicIdException|InconsistentTopicId"),
    (ExitClass.CHECKPOINT_DAMAGE, r"CONCURRENT_STREAM_LOG_UPDATE|CHECKPOINT(?!_RDD)"),
    (ExitClass.CHECKPOINT_DAMAGE, STATE_DAMAGE),
    (ExitClass.SCHEMA, r"DELTA_(FAILED_TO_MERGE|METADATA_MISMATCH|SCHEMA|MERGE_INCOMPATIBLE)"),
    (
        ExitClass.INFRASTRUCTURE,
        r"psycopg2\.|DatabaseDown|Python worker exited|org\.apache\.kafka|java\.net\.|TimeoutException"
        r"|ConcurrentModification|IOException|CHECKPOINT_RDD",  # the last: an executor took kept rows with it
    ),
)
JVM_OUT_OF_MEMORY = 52  # Spark's own exit code for an OutOfMemoryError that nobody caught
STATE = "The batch in hand was not committed; the sinks hold their tidemarks."
SHOWN_CHARACTERS = 2_000


class JvmEnded(StreamFailure):
    """The JVM of the driver is gone."""

    exit_class = ExitClass.KILLED


class JvmOutOfMemory(StreamFailure):
    """The JVM under the driver ended itself for lack of memory."""

    exit_class = ExitClass.OUT_OF_MEMORY


def ended_by(error: BaseException | None) -> DriverExit:
    if error is None:
        return DriverExit(
            ExitClass.STOPPED, "The stream ended as it was asked to.", "Every batch is whole.", ExitClass.STOPPED.next_step, {}
        )
    exit_class, name = classify(error), type(error).__name__
    if isinstance(error, TidemarkError):
        evidence = error.evidence if isinstance(error, StreamFailure) else {}
        return DriverExit(exit_class, f"{name}: {error.happened}", error.state, error.next_step, evidence)
    evidence = {"exception": str(error)[:SHOWN_CHARACTERS]}
    happened = " ".join([f"{name}: {_first_line(error)}", *getattr(error, "__notes__", ())])
    return DriverExit(exit_class, happened, STATE, exit_class.next_step, evidence)


def end_of_jvm(exit_code: int | None) -> StreamFailure:
    """What Python sees of it is a broken connection; its exit code, if it is known, tells more."""
    if exit_code == JVM_OUT_OF_MEMORY:
        return JvmOutOfMemory("The driver's JVM ran out of memory.", state=STATE)
    how = "is gone"
    if exit_code is not None:
        how = f"was killed by {signal.Signals(-exit_code).name}" if exit_code < 0 else f"ended with code {exit_code}"
    return JvmEnded(f"The driver's JVM {how}.", state=STATE, next_step="Start the stream again, it goes on by itself.")


def classify(error: BaseException) -> ExitClass:
    if isinstance(error, StreamFailure):
        return error.exit_class
    if isinstance(error, TidemarkError):
        return ExitClass.CONFIGURATION
    if isinstance(error, MemoryError):
        return ExitClass.OUT_OF_MEMORY
    if isinstance(error, (psycopg2.Error, OSError, *CONFLICTS)):
        return ExitClass.INFRASTRUCTURE
    text = f"{type(error).__name__}: {error}"
    return next((found for found, marks in FOREIGN_MARKS if re.search(marks, text)), ExitClass.UNKNOWN)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0]
