"""
### Recover a stream

Brings back a stream that a plain start cannot: with a new checkpoint folder, with its state from elsewhere, or by accepting, with
its numbers, what stands against the start.

**Use when** an incident or a refused start names this runbook. By mode:
- `rebuild`: begins a new checkpoint folder at the sinks' tidemarks; nothing is accepted. For streams without a state.
- `continue`, `restore`, `warm_up`: for streams with `dedupe` or `aggregate`, where the state comes from. `continue` is what every
  start does: the newest folder that is whole, or else a warm-up. `restore`: the newest backup that is whole, not above any sink,
  and made by today's file and shuffle partitions; refused if the newest three have none. `warm_up`: made again from Kafka,
  whatever folders there are; the plan tells from which offsets and how many. Where Kafka has too little for it, the others may
  not need to forget.
- `forget`: Kafka no longer has all that the state was made of; goes on without events up to the time that the plan names. A copy
  that comes from now on of such an event may be delivered again; open windows that began by then keep their last value, or with
  `emit: final` are never given out. Try *restore* first: a backup that fits forgets nothing.
- `accept_loss`: Kafka has deleted records that a sink does not have; goes on without exactly those that the plan names, or up to
  *Ceilings*. Of a stream with a state it accepts what *forget* does too, if the plan shows both.
- `accept_change`: somebody changed rows of a table; leaves them as they are now.
- `new_topic`: the topic was made anew; its records begin a new epoch beside the old ones.

**Don't use when** the table or the topic can be put back as it was: then nothing has to be accepted.

**What it changes** As *restart_stream*. What is accepted is written into the sinks' adoption for ever: which offsets are
lost, up to which time events are forgotten, which change was accepted, which topic came after which. No row is deleted, and no
older folder or backup is changed, but that `warm_up` marks the older folders: no later start goes on from them by itself.

**Steps** check; plan; with *dry run* on it ends here and shows the plan; approve, always when something is accepted; act,
exactly what was approved, or refuse if more would be lost by now; verify; report.

**If it fails half-way** what was approved holds for one start only. Trigger the runbook again: it makes a new plan.

**Undo** None for what was accepted, so the dry run is the default. A new folder or another source of the state
needs no undoing.
"""

from airflow.sdk import DAG, Param

from include.airflow_parts.runbook import DEFAULTS, DRY_RUN, REASON, lay_spine, stream_param

MODES = {
    "rebuild": "rebuild: a new checkpoint folder, nothing is accepted",
    "continue": "continue: the newest whole state, or else made again from Kafka",
    "restore": "restore: the state of the newest backup",
    "warm_up": "warm_up: the state made again from Kafka",
    "forget": "forget: go on without events that are in no state any more",
    "accept_loss": "accept_loss: go on without records that Kafka has deleted",
    "accept_change": "accept_change: leave rows that somebody changed as they are",
    "new_topic": "new_topic: go on with a topic that was made anew",
}

with DAG(
    dag_id="recover_stream",
    schedule=None,
    catchup=False,
    default_args=DEFAULTS,
    tags=["runbook"],
    doc_md=__doc__,
    params={
        "stream": stream_param(),
        "mode": Param(
            type="string",
            enum=list(MODES),
            values_display=MODES,
            title="Mode",
            description="Where the state comes from, or what this start may accept",
        ),
        "reason": REASON,
        "dry_run": DRY_RUN,
        "ceilings": Param(
            {},
            type="object",
            additionalProperties={"type": "integer", "minimum": 0},
            title="Ceilings",
            description='For accept_loss, if Kafka goes on deleting: up to which offset of a partition, such as {"3": 9120}',
        ),
    },
):
    lay_spine()
