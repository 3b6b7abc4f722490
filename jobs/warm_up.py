"""Does in little what a driver does, so that its JVM loads the classes that a driver loads, and writes them to an archive.

Run once by `make`, see include/jars/class_archive.py. Needs neither Kafka nor a database.
"""

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from include.contract.environment import load_environment
from include.spark_settings import spark_settings


def main(archive: str) -> None:
    environment = load_environment("local")
    settings = {**spark_settings(environment), "spark.driver.extraJavaOptions": f'"-XX:ArchiveClassesAtExit={archive}"'}
    builder = SparkSession.Builder().appName("warm up").master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    load_classes(spark, environment.lake_path("warm_up"), Path(environment.lake_path("checkpoint")))
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends when this does, and writes the archive
    gateway.proc.wait(120)


def load_classes(spark: SparkSession, table: str, checkpoint: Path) -> None:
    values = spark.range(100).select("id", F.to_json(F.struct("id", F.lit("x").alias("text"))).alias("value"))
    parsed = values.withColumn("parsed", F.from_json("value", "id long, text string")).select("id", "parsed.text")
    for _ in range(2):
        parsed.write.format("delta").mode("append").save(table)
    stream = spark.readStream.format("delta").load(table).where("id >= 0").writeStream.foreachBatch(_count)
    stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    jvm: Any = spark._jvm
    for source in ("KafkaSourceProvider", "KafkaMicroBatchStream", "KafkaOffsetReaderAdmin"):
        jvm.java.lang.Class.forName(f"org.apache.spark.sql.kafka010.{source}")


def _count(rows: DataFrame, batch: int) -> None:
    rows.groupBy("text").count().write.format("noop").mode("overwrite").save()


if __name__ == "__main__":
    main(sys.argv[1])
