"""Great Expectations judges the small frames of a window; its results and data docs are kept in the stream's folder.

Imported by the task that judges alone: importing Great Expectations takes seconds. What it calls a checkpoint is a validation
here.
"""

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from include.reconciliation.expectations import Expected, Frame

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # nothing here talks to the outside
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its own imports, on this Python
    import great_expectations as gx
    from great_expectations.checkpoint.actions import UpdateDataDocsAction
    from great_expectations.data_context.types.base import ProgressBarsConfig
    from great_expectations.expectations.core.expect_column_pair_values_to_be_equal import ExpectColumnPairValuesToBeEqual
    from great_expectations.expectations.core.expect_column_values_to_be_between import ExpectColumnValuesToBeBetween

SITE = Path("gx", "uncommitted", "data_docs", "local_site", "index.html")


@dataclass(frozen=True)
class Failed:
    """An expectation that does not hold, and the rows in which it does not."""

    frame: str
    expected: Expected
    rows: list[dict[str, Any]]


def validate(folder: Path, window: int, frames: list[Frame]) -> list[Failed]:
    """Every frame that has rows: of no rows everything would be true."""
    folder.mkdir(parents=True, exist_ok=True)
    context = gx.get_context(mode="file", project_root_dir=folder)
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return [failed for frame in frames if frame.rows for failed in _validate(context, window, frame)]


def _validate(context: Any, window: int, frame: Frame) -> list[Failed]:
    asset = context.data_sources.add_or_update_pandas(frame.name).add_dataframe_asset("measured")
    batch = asset.add_batch_definition_whole_dataframe("window")
    suite = gx.ExpectationSuite(name=frame.name, expectations=[_expectation(one) for one in frame.expected])
    definition = gx.ValidationDefinition(name=frame.name, data=batch, suite=context.suites.add_or_update(suite))
    validation = gx.Checkpoint(
        name=frame.name,
        validation_definitions=[context.validation_definitions.add_or_update(definition)],
        actions=[UpdateDataDocsAction(name="data docs")],
        result_format={"result_format": "COMPLETE"},
    )
    run = gx.RunIdentifier(run_name=f"window-{window}")
    done = context.checkpoints.add_or_update(validation).run(batch_parameters={"dataframe": pd.DataFrame(frame.rows)}, run_id=run)
    (results,) = [one.results for one in done.run_results.values()]
    by_sentence = {one.sentence: one for one in frame.expected}
    return [
        Failed(frame.name, by_sentence[one.expectation_config.meta["sentence"]], _rows(frame, one))
        for one in results
        if not one.success
    ]


def _expectation(expected: Expected) -> Any:
    told = {"sentence": expected.sentence}
    if expected.other is not None:
        return ExpectColumnPairValuesToBeEqual(column_A=expected.column, column_B=expected.other, meta=told)
    return ExpectColumnValuesToBeBetween(column=expected.column, min_value=0, max_value=expected.at_most, meta=told)


def _rows(frame: Frame, result: Any) -> list[dict[str, Any]]:
    if "unexpected_index_list" not in result.result:
        raise RuntimeError(f"Great Expectations could not judge {frame.name}: {result.exception_info}")
    return [frame.rows[int(place)] for place in result.result["unexpected_index_list"]]
