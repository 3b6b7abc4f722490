"""Says the standing tidemark again. Delta cleans its log up after 30 days, and on a quiet table the commit that holds the
tidemark would go with it: then nobody knew any more where the stream is (P4).
"""

from datetime import timedelta

from pyspark.sql import SparkSession

from include.contract.identity import transaction_app_id
from include.tidemarks.delta_log import DeltaLog
from include.tidemarks.sink_state import SinkState
from jobs.delta_transaction import CONFLICTS, DeltaTransaction
from jobs.maintenance.tables import MaintainedTable, maintain_note

REPEAT_AFTER = timedelta(hours=12)  # so every night on a quiet table, also when the runs are not 24 hours apart
TURNS = 5


def repeat_tidemark(spark: SparkSession, table: MaintainedTable) -> bool:
    """False if it need not be: the tidemark is young, or the stream moves it at this moment."""
    log, app_id = DeltaLog(table.path), transaction_app_id(table.stream, table.sink)
    for _ in range(TURNS):
        transaction = DeltaTransaction(spark, table.path, app_id)
        state = table.state()
        if state.version != transaction.version:
            continue  # somebody committed after the transaction was opened: T must be that of its version
        if state.tidemark is None or state.changes or not is_old(log, state):
            return False
        number = log.newest_with_transaction(app_id)[1] or 0
        same = {"tidemark": state.tidemark, "builds_on": state.tidemark, "looked": transaction.version}
        try:
            transaction.commit(number, maintain_note(state).model_copy(update=same).to_json())
        except CONFLICTS:
            continue
        return True
    return False


def is_old(log: DeltaLog, state: SinkState) -> bool:
    for commit in log.standing(state.version or 0):
        if commit.note is not None and commit.note.tidemark is not None:
            return log.age_seconds(commit.version) > REPEAT_AFTER.total_seconds()
    return False
