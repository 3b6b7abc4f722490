"""The one Spark session: jars, Delta and the Python daemon are on it, also where jobs are not submitted but called."""

from pathlib import Path

from pyspark.sql import SparkSession

from include.contract.environment import load_environment
from include.spark_settings import spark_settings
from jobs.check_deployment import pass_through_python


def test_every_setting_is_in_effect(spark: SparkSession) -> None:
    settings = spark_settings(load_environment())
    in_effect = {key: spark.conf.get(key, None) or spark.sparkContext.getConf().get(key) for key in settings}
    assert in_effect == settings


def test_python_workers_are_forked_from_our_daemon(spark: SparkSession) -> None:
    rows = spark.range(10).mapInArrow(pass_through_python, "id long, worker string")
    assert [row.worker for row in rows.select("worker").distinct().collect()] == ["jobs.python_daemon"]


def test_delta_is_there_also_in_a_path_with_a_space(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "a table"
    spark.range(100).write.format("delta").save(str(table))
    assert spark.read.format("delta").load(str(table)).count() == 100
    assert (table / "_delta_log").is_dir()
