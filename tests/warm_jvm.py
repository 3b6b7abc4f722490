"""One JVM for several Python processes: the tests own a warm one, and lend it to a process that runs another copy of the product.

As a module it is a driver like jobs.run_stream, which may be killed or stopped with nothing but its Python. What ends a JVM is
tested with drivers that have one of their own.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from include.spark_settings import PROJECT
from jobs.failpoints import VARIABLE
from jobs.java_class import java_class, remember_classes
from jobs.run_stream import main


@contextmanager
def lent(spark: SparkSession) -> Iterator[dict[str, str]]:
    """The environment by which another process finds the JVM."""
    server = java_class(spark, "org.apache.spark.api.python.Py4JServer")(spark.sparkContext._jsc.sc().conf())
    server.start()
    try:
        yield {"PYSPARK_GATEWAY_PORT": str(server.getListeningPort()), "PYSPARK_GATEWAY_SECRET": server.secret()}
    finally:
        server.shutdown()


def borrowed(name: str = "borrowed") -> SparkSession:
    """In the other process. Its Python workers import its own copy of the product."""
    gateway = launch_gateway()
    jvm = gateway.jvm
    context = jvm.org.apache.spark.SparkContext.getOrCreate()
    java_context = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(context)
    own = SparkConf(loadDefaults=False).setMaster(context.master()).setAppName(name)
    own.set("spark.executorEnv.PYTHONPATH", str(PROJECT))
    own.set("spark.executorEnv.PYTHONSAFEPATH", "1")  # or what lies where the JVM was started would come first
    if failpoint := os.environ.get(VARIABLE):
        own.set(f"spark.executorEnv.{VARIABLE}", failpoint)
    spark = SparkSession(SparkContext(conf=own, gateway=gateway, jsc=java_context))
    remember_classes(spark)
    return spark


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], open_spark=borrowed))
