"""What becomes of a stateful stream's folder when its driver ends: backed up after a stop, marked if it is damaged.

Best effort: whatever goes wrong here is printed, and the driver's end stays what it was. A stateless stream needs none of it.
"""

from pathlib import Path

from include.checkpoints.about import mark_damaged
from include.checkpoints.backup import make_backup
from include.checkpoints.spark_log import last_committed
from include.contract.catalog import Stream
from include.contract.errors import TidemarkError
from include.contract.exit_class import ExitClass
from include.control.progress import DriverExit
from jobs.take_over import TakenStream


class FolderCare:
    """Of one driver's folder. `backups`: the stream's own place for them."""

    def __init__(self, stream: Stream, taken: TakenStream, backups: Path) -> None:
        self._stream = stream
        self._taken = taken
        self._backups = backups
        self._before = last_committed(taken.checkpoint)  # of a folder that was carried over

    def ended(self, ended: DriverExit) -> None:
        if self._taken.state is None:
            return
        try:
            self._care(ended)
        except (TidemarkError, OSError) as error:
            print(f"{self._stream.name}: the checkpoint was not looked after: {error}", flush=True)

    def _care(self, ended: DriverExit) -> None:
        folder = self._taken.checkpoint
        if ended.exit_class is ExitClass.CHECKPOINT_DAMAGE:
            mark_damaged(folder, ended.happened)
            print(f"{self._stream.name}: {folder.name} is marked as damaged; the next start does not go on from it", flush=True)
        if ended.exit_class is ExitClass.STOPPED and last_committed(folder) != self._before:
            self._back_up(folder)

    def _back_up(self, folder: Path) -> None:
        spec = self._stream.spec
        about = {"stream": self._stream.name, "generation": self._taken.generation.number}
        made = make_backup(folder, self._backups, spec.source.topic, about, spec.stateful_operators)
        print(f"{self._stream.name}: {folder.name} was backed up as {made.folder.name}", flush=True)
