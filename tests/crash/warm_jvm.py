"""One JVM for several Python processes: the tests own a warm one, and lend it to a process that runs another copy of the product.

What ends or stops a JVM is tested with drivers that have one of their own.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from include.spark_settings import PROJECT


@contextmanager
def lent(spark: SparkSession) -> Iterator[dict[str, str]]:
    """The environment by which another process finds the JVM."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    server = jvm.org.apache.spark.api.python.Py4JServer(spark.sparkContext._jsc.sc().conf())
    server.start()
    try:
        yield {"PYSPARK_GATEWAY_PORT": str(server.getListeningPort()), "PYSPARK_GATEWAY_SECRET": server.secret()}
    finally:
        server.shutdown()


def borrowed() -> SparkSession:
    """In the other process. Its Python workers import its own copy of the product."""
    gateway = launch_gateway()
    jvm = gateway.jvm
    context = jvm.org.apache.spark.SparkContext.getOrCreate()
    java_context = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(context)
    own = SparkConf(loadDefaults=False).setMaster(context.master()).setAppName("borrowed")
    own.set("spark.executorEnv.PYTHONPATH", str(PROJECT))
    return SparkSession(SparkContext(conf=own, gateway=gateway, jsc=java_context))
