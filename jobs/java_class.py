"""Classes of the driver's JVM by their full names; and those that PySpark asks for again and again, remembered.

`jvm.org.apache.spark.SparkContext` asks the JVM for `org`, `org.apache` and so on, and each time it looks through every jar on
its class path for a class of that name: a twentieth of the samples in a profile of short drives. So does the short `functions`.
"""

from typing import Any

from pyspark.sql import SparkSession

ASKED_FOR_EACH_COLUMN = ("functions", "org.apache.spark.sql.functions", "PythonUtils")


def java_class(spark: SparkSession, name: str) -> Any:
    return getattr(spark._jvm, name)


def remember_classes(spark: SparkSession) -> None:
    """PySpark asks for the class, then for its method, then calls it: three questions for each column of a batch, of which one
    is left."""
    jvm: Any = spark._jvm
    for name in ASKED_FOR_EACH_COLUMN:
        if name not in vars(jvm):
            setattr(jvm, name, _Remembered(getattr(jvm, name)))


class _Remembered:
    """Stands for a class whose static methods are called by name; asks for each of them once."""

    def __init__(self, java_class: Any) -> None:
        self._java_class = java_class

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._java_class, name)
        setattr(self, name, method)
        return method
