"""Opens the Spark session that every job and test uses. The settings come from `include.spark_settings`."""

from pyspark.sql import SparkSession

from include.contract.connections import read_connection
from include.contract.environment import load_environment
from include.spark_settings import spark_settings
from jobs.java_class import remember_classes


def open_session(name: str) -> SparkSession:
    """Under spark-submit the same settings are on the command line already; elsewhere they are set here."""
    environment = load_environment()
    where = read_connection(environment.spark.connection)
    builder = SparkSession.Builder().appName(name).master(where.address if where.port else where.host)
    for key, value in spark_settings(environment).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    remember_classes(spark)
    return spark
