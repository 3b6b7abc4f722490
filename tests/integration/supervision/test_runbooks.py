"""The person on call, through Airflow's REST API as the UI uses it: start, stop, restart, recover, pause; and what is refused."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from confluent_kafka import TopicPartition

from include.local_stack.airflow import run_airflow
from include.local_stack.stack import Stack
from tests.airflow_api import AirflowApi, Refused
from tests.integration.maintenance.trial import maintain_notes
from tests.running import wait_for
from tests.supervised import SupervisedStream

SHIPPED = "orders_raw"  # its file is there from the start, so the drop-down has it


@pytest.fixture(scope="module")
def stream(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedStream]:
    """The shipped stream, switched off by its file: nobody runs it until a runbook does."""
    stream = SupervisedStream(
        stack, tmp_path_factory.mktemp("runbooks"), config=stack.home.config, name=SHIPPED, changes={"enabled": False}
    )
    stream.wait_for_state("stopped")
    yield stream
    stream.want(running=False)
    wait_for("its driver to end", lambda: not stream.living_launches(), 180)


def start(stream: SupervisedStream, airflow: AirflowApi, **more: Any) -> str:
    run = airflow.trigger("start_stream", stream=stream.name, reason="the test needs it to run", **more)
    return run.wait()


@pytest.fixture
def running(stream: SupervisedStream, airflow: AirflowApi) -> SupervisedStream:
    if not stream.living_launches():
        assert start(stream, airflow) == "success"
    stream.wait_until_driven()
    return stream


@pytest.fixture
def stopped(stream: SupervisedStream, airflow: AirflowApi) -> SupervisedStream:
    if stream.living_launches():
        assert airflow.trigger("stop_stream", stream=stream.name, reason="the test needs it stopped").wait() == "success"
    assert stream.living_launches() == set()
    return stream


def test_a_stream_is_started_and_delivers(stopped: SupervisedStream, airflow: AirflowApi) -> None:
    stopped.send(60, bad=1)
    run = airflow.trigger("start_stream", stream=stopped.name, reason="first start")
    assert run.wait() == "success"
    assert stopped.problems() == []
    assert run.tasks() == dict.fromkeys(("check", "plan", "approve", "act", "verify", "report"), "success")
    report = run.log("report")
    assert "start_stream orders_raw, asked for by admin: first start" in report
    assert "Touched: desired state: running; a new driver" in report
    assert "Not touched: tables and their rows" in report
    assert "Verified: Generation" in report
    events = {(entry.event, entry.actor) for entry in stopped.journal()}
    assert {("desired", "admin"), ("launched", "admin"), ("runbook ended", "admin")} <= events


def test_a_second_start_starts_no_second_driver(running: SupervisedStream, airflow: AirflowApi) -> None:
    before = running.driver()
    assert start(running, airflow) == "success"
    assert running.driver() == before


def test_a_restart_brings_a_new_generation_and_loses_nothing(running: SupervisedStream, airflow: AirflowApi) -> None:
    before = running.driver()
    running.send(60)
    run = airflow.trigger("restart_stream", stream=running.name, reason="a new file")
    assert run.wait() == "success"
    assert "finished its batch and stopped" in run.log("report")
    assert running.driver().launch != before.launch
    running.wait_until_delivered()


def test_two_restarts_at_once_leave_one_driver(running: SupervisedStream, airflow: AirflowApi) -> None:
    running.send(60)
    runs = [airflow.trigger("restart_stream", stream=running.name, reason=f"restart {number}") for number in (1, 2)]
    states = [run.wait() for run in runs]
    assert "success" in states
    for run, state in zip(runs, states, strict=True):
        if state == "failed":
            assert "Somebody else acts on" in run.log("act") or "The driver ended as" in run.log("verify")
    running.wait_until_delivered()
    running.wait_until_driven()


@pytest.mark.thorough
def test_an_act_that_is_cleared_starts_no_second_driver(running: SupervisedStream, airflow: AirflowApi) -> None:
    run = airflow.trigger("restart_stream", stream=running.name, reason="to be cleared")
    run.wait_for_task("verify", "running")
    run.clear("act")
    assert run.wait() == "success"
    mine = [entry for entry in running.journal() if entry.event == "launched" and "to be cleared" in str(entry.detail)]
    assert len(mine) == 1
    running.wait_until_driven()


@pytest.mark.thorough
@pytest.mark.parametrize("state", ["failed", "success"])
def test_an_act_that_is_marked_in_mid_flight_leaves_a_stream_that_runs(
    state: str, running: SupervisedStream, airflow: AirflowApi
) -> None:
    run = airflow.trigger("restart_stream", stream=running.name, reason=f"marked {state}")
    run.wait_for_task("act", "running", "success")
    run.set_state("act", state)
    run.wait()
    running.send(30)
    running.wait_until_delivered()
    running.wait_until_driven()


def test_a_stop_is_graceful_and_lasts(running: SupervisedStream, airflow: AirflowApi) -> None:
    run = airflow.trigger("stop_stream", stream=running.name, reason="maintenance")
    assert run.wait() == "success"
    assert running.living_launches() == set()
    assert running.ends()[0].exit_class.title == "stopped"
    assert running.wait_for_state("stopped").detail == "by admin: maintenance"
    assert running.problems() == []


def test_all_streams_are_paused_and_resumed(running: SupervisedStream, airflow: AirflowApi) -> None:
    assert airflow.trigger("pause_all", reason="the broker moves").wait() == "success"
    assert running.wait_for_state("stopped").detail == "all streams are paused by admin: the broker moves"
    refused = airflow.trigger("start_stream", stream=running.name, reason="too early")
    assert refused.wait() == "failed"
    assert "Run resume_all first." in refused.log("check")
    assert "Nothing was touched: step check failed." in refused.log("report")
    assert airflow.trigger("resume_all", reason="the broker is back").wait() == "success"
    running.wait_until_driven()
    assert airflow.trigger("resume_all", reason="again").wait() == "failed"


WRONG = {
    "unknown stream": ("start_stream", {"stream": "no_such_stream", "reason": "a try"}, "no_such_stream"),
    "missing stream": ("start_stream", {"reason": "a try"}, "stream"),
    "missing reason": ("start_stream", {"stream": SHIPPED}, "reason"),
    "empty reason": ("restart_stream", {"stream": SHIPPED, "reason": ""}, "reason"),
    "wrong type": ("recover_stream", {"stream": SHIPPED, "reason": "a try", "mode": "rebuild", "dry_run": "perhaps"}, "dry_run"),
    "unknown mode": ("recover_stream", {"stream": SHIPPED, "reason": "a try", "mode": "magic"}, "mode"),
    "negative ceiling": (
        "recover_stream",
        {"stream": SHIPPED, "reason": "a try", "mode": "accept_loss", "ceilings": {"0": -1}},
        "ceilings",
    ),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=list(WRONG))
def test_a_wrong_request_is_refused_by_airflow(case: tuple[str, dict[str, Any], str], airflow: AirflowApi, stack: Stack) -> None:
    dag, conf, named = case
    with pytest.raises(Refused) as refused:
        airflow.trigger(dag, **conf)
    assert refused.value.status == 400
    assert named in refused.value.answer


def test_an_unknown_key_is_refused_before_anything_is_touched(stream: SupervisedStream, airflow: AirflowApi) -> None:
    before = len(stream.journal())
    run = airflow.trigger("restart_stream", stream=stream.name, reason="a try", force=True)
    assert run.wait() == "failed"
    assert "force is no parameter of restart_stream; there are: reason, stream." in run.log("check")
    assert [entry.event for entry in stream.journal()[before:]] == ["runbook failed"]


def test_a_stop_of_a_stream_that_nobody_knows_is_refused(airflow: AirflowApi, stream: SupervisedStream) -> None:
    run = airflow.trigger("stop_stream", stream="no_such_stream", reason="a try")
    assert run.wait() == "failed"
    assert "There is no stream 'no_such_stream'" in run.log("check")


@pytest.fixture(scope="module")
def viewer(stack: Stack) -> AirflowApi:
    password = uuid.uuid4().hex
    named = ["--username", "viewer", "--firstname", "V", "--lastname", "V", "--email", "v@localhost.localdomain"]
    run_airflow(
        ["users", "create", "--role", "Viewer", *named],
        stack.home,
        stack.airflow_environment(),
        answer=f"{password}\n{password}\n",
    )
    return AirflowApi(stack, "viewer", password)


@pytest.fixture
def lossy(running: SupervisedStream, airflow: AirflowApi) -> SupervisedStream:
    """Stopped; and Kafka has deleted records that the sink does not have: 10 of partition 0."""
    running.send(30)
    running.wait_until_delivered()
    assert airflow.trigger("stop_stream", stream=running.name, reason="records will be deleted").wait() == "success"
    running.send(60)
    delete_before(running, tidemark(running) + 10)
    return running


def tidemark(stream: SupervisedStream, partition: int = 0) -> int:
    note = next(note for note in reversed(stream.notes()) if "tidemark" in note)
    return int(note["tidemark"]["offsets"][str(partition)])


def delete_before(stream: SupervisedStream, offset: int) -> None:
    admin, place = stream.admin(), TopicPartition(stream.name, 0, offset)
    admin.delete_records([place])[place].result(15)
    held = tidemark(stream)
    stream.lost |= {place for place in stream.sent if place[0] == 0 and held <= place[1] < offset}


def test_a_loss_is_approved_with_its_numbers_or_nothing_is_touched(
    lossy: SupervisedStream, airflow: AirflowApi, viewer: AirflowApi
) -> None:
    """In one test, for each part leads to the next: refused, dry run, rejected, expired, stale, marked, approved."""
    held, before = tidemark(lossy), lossy.rows()
    wrong_mode = airflow.trigger("recover_stream", stream=lossy.name, reason="a try", mode="rebuild", dry_run=False)
    assert wrong_mode.wait() == "failed"
    assert "10 offsets are lost" in wrong_mode.log("plan")

    dry = airflow.trigger("recover_stream", stream=lossy.name, reason="what would happen", mode="accept_loss")
    assert dry.wait() == "success"
    assert "NEEDS APPROVAL" in dry.log("plan")
    assert "Nothing was touched: this was a dry run" in dry.log("report")

    rejected = airflow.trigger("start_stream", stream=lossy.name, reason="to be rejected")
    rejected.wait_until_asked()
    with pytest.raises(Refused) as refused:
        viewer.ask(
            f"{rejected.path}/taskInstances/approve/-1/hitlDetails", {"chosen_options": ["Approve"], "params_input": {}}, "PATCH"
        )
    assert refused.value.status == 403
    with pytest.raises(Refused) as refused:
        viewer.trigger("start_stream", stream=lossy.name, reason="not mine to ask")
    assert refused.value.status == 403
    rejected.answer("Reject")
    assert rejected.wait() == "success"
    assert "Nothing was touched: the plan was rejected." in rejected.log("report")
    assert lossy.journal()[-1].detail["rejected_by"] == "admin"

    expired = airflow.trigger("start_stream", stream=lossy.name, reason="to expire")
    expired.wait_until_asked()
    let_expire(lossy.stack, expired.id)
    assert expired.wait() == "failed"
    assert "Nothing was touched: the approval expired" in expired.log("report")

    stale = airflow.trigger("start_stream", stream=lossy.name, reason="to be stale")
    stale.wait_until_asked()
    delete_before(lossy, held + 15)
    stale.answer("Approve")
    assert stale.wait() == "failed"
    assert "The world has changed since the plan was made" in stale.log("act")
    assert "15 offsets are lost" in stale.log("act")
    assert "Nothing was touched: step act failed." in stale.log("report")
    assert lossy.rows() == before
    assert lossy.living_launches() == set()

    marked = airflow.trigger("recover_stream", stream=lossy.name, reason="to be marked", mode="accept_loss", dry_run=False)
    marked.wait_until_asked()
    marked.set_state("approve", "success")
    assert marked.wait() == "failed"
    assert "Nobody has approved this plan." in marked.log("act")
    assert "Nothing was touched: step act failed." in marked.log("report")
    assert lossy.living_launches() == set()

    approved = airflow.trigger(
        "recover_stream",
        stream=lossy.name,
        reason="they are of no use",
        mode="accept_loss",
        dry_run=False,
        ceilings={"0": held + 20},
    )
    approved.wait_until_asked()
    assert f"Covers a loss of partition 0 up to {held + 20:,}." in approved.log("plan")
    delete_before(lossy, held + 18)
    approved.answer("Approve")
    assert approved.wait() == "success"
    assert "Approved by" in approved.log("report")
    lossy.wait_until_delivered()
    acted = next(entry for entry in reversed(lossy.journal()) if entry.event == "runbook acted")
    assert (acted.actor, acted.detail["approved_by"]) == ("admin", "admin")


def let_expire(stack: Stack, run_id: str) -> None:
    """The hour that a person has is over: as the scheduler would find it, by the clock in its database."""
    where = stack.postgres.connection("airflow")
    with psycopg2.connect(
        host=where.host, port=where.port, user=where.login, password=where.password, dbname=where.schema
    ) as connection:
        connection.cursor().execute(
            "UPDATE task_instance SET trigger_timeout = now() - interval '1 second' WHERE run_id = %s AND task_id = 'approve'",
            [run_id],
        )
    connection.close()


def test_what_was_asked_for_can_be_read_in_the_journal(running: SupervisedStream, tmp_path: Path) -> None:
    lines = [entry.line() for entry in running.journal()]
    assert any("desired by admin" in line and "before: " in line and "after: " in line for line in lines)


def test_its_books_are_judged_and_told_downstream(running: SupervisedStream, airflow: AirflowApi) -> None:
    """After all that was lost above: what Kafka has deleted is not judged; what came after it is."""
    reconcile = f"reconcile_{running.name}"
    first = airflow.trigger(reconcile)
    assert first.wait() == "success", first.tasks()
    running.send(30, bad=1)
    running.wait_until_delivered()
    run = airflow.trigger(reconcile)
    assert run.wait() == "success", run.tasks()
    assert "passed. 31 records in 31 offsets: Kafka and the sink agree." in run.log("judge")
    assert run.tasks()["publish_lake"] == "success"
    wait_for("downstream to be told", lambda: "orders_raw.lake is complete through" in _announced(airflow), 90)

    report = run.links("judge")["Report"]
    assert "Kafka and the sink agree." in airflow.page(report)
    assert "Data Docs created by Great Expectations" in airflow.page(run.links("judge")["Great Expectations"])
    for path, logged_in, status in (
        (report, False, 401),
        ("/tidemark/reports/orders_raw/../../secrets/airflow_password", True, 404),
    ):
        with pytest.raises(Refused) as refused:
            airflow.page(path, logged_in=logged_in)
        assert refused.value.status == status

    nothing = airflow.trigger(reconcile)
    assert nothing.wait() == "success"
    assert "Nothing to judge" in nothing.log("choose_window")
    assert nothing.tasks()["judge"] == "skipped"
    asked = airflow.trigger(reconcile, sink="lake")
    assert asked.wait() == "failed"
    assert "By hand a window needs sink, from and to" in asked.log("choose_window")
    end = tidemark(running, 1)
    by_hand = airflow.trigger(reconcile, sink="lake", **{"from": {"1": end - 3}, "to": {"1": end}})
    assert by_hand.wait() == "success", by_hand.tasks()


def test_its_tables_are_maintained_while_it_runs(running: SupervisedStream, airflow: AirflowApi) -> None:
    driver = running.wait_until_driven()
    run = airflow.trigger("maintain_tables", stream=running.name)
    assert run.wait() == "success", run.log("maintain")
    assert f"{running.name}.lake: " in run.log("maintain")
    assert maintain_notes(running.table)
    running.send(30)
    running.wait_until_delivered()
    assert running.wait_until_driven() == driver


def test_checkpoints_are_backed_up_by_airflow(airflow: AirflowApi) -> None:
    """Here no stateful stream runs: which backups are made of those that do is shown without Airflow."""
    run = airflow.trigger("maintain_checkpoints", stream="payment_totals")
    assert run.wait() == "success", run.log("maintain")
    told = run.log("maintain")
    assert "payment_totals: there is no checkpoint to back up yet." in told
    assert "user_event_counts" not in told


def _announced(airflow: AirflowApi) -> str:
    ended = next((run for run in airflow.runs("announce_complete") if run.state == "success"), None)
    return ended.log("announce") if ended else ""
