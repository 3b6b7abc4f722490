"""A class of the driver's JVM by its full name.

`jvm.org.apache.spark.SparkContext` asks the JVM for `org`, `org.apache` and so on, and each time it looks through every jar on
its class path for a class of that name: a twentieth of the samples in a profile of short drives.
"""

from typing import Any

from pyspark.sql import SparkSession


def java_class(spark: SparkSession, name: str) -> Any:
    return getattr(spark._jvm, name)
