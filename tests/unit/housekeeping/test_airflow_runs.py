"""What `airflow db clean` says and leaves, as far as it can be told without a database."""

from datetime import UTC, datetime

from include.housekeeping.airflow_runs import left_behind, read_counts

SAID = """
Performing dry run for table xcom
Checking table xcom
Found 0 rows meeting deletion criteria.

Checking table dag_run
Found 12 rows meeting deletion criteria.
Performing Delete (batch 1, max 10000 rows)...
Moving data to table _airflow_deleted__dag_run__20261116173251__b1
Finished Performing Delete
"""


def test_rows_are_counted_by_table() -> None:
    assert read_counts(SAID) == {"xcom": 0, "dag_run": 12}


def test_only_an_old_copy_that_a_killed_batch_left_is_dropped() -> None:
    ours = "_airflow_deleted__task_instance__20260101000000__b12"
    others = [
        "_airflow_deleted__task_instance__20260201000000__b1",  # perhaps of a clean that runs at this moment
        "_airflow_deleted__task_instance__20260101000000",  # somebody's archive, made on purpose
        "dag_run",
    ]
    assert left_behind([ours, *others], datetime(2026, 1, 15, tzinfo=UTC)) == [ours]
