"""The functions a stream file may call, compared with the registry of the Spark that runs them."""

import re

from pyspark.sql import SparkSession

from include.contract.spark_functions import GROUPS, ROW_FUNCTIONS, UNFIT


def test_the_list_of_functions_is_that_of_this_spark(spark: SparkSession) -> None:
    """If this fails after an upgrade: look at each new function, and put it into ROW_FUNCTIONS or into UNFIT."""
    registry = spark._jsparkSession.sessionState().functionRegistry()  # type: ignore[attr-defined]
    jvm = spark.sparkContext._jvm
    names = [name.funcName() for name in jvm.scala.jdk.javaapi.CollectionConverters.asJava(registry.listFunction())]
    identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    groups = {name: registry.lookupFunction(identifier(name)).get().getGroup() for name in names}
    wanted = {f"{group}_funcs" for group in GROUPS}
    assert {
        name for name, group in groups.items() if group in wanted and re.fullmatch("[a-z0-9_]+", name)
    } == ROW_FUNCTIONS | UNFIT
    assert not ROW_FUNCTIONS & UNFIT
