"""Every Spark setting of Tidemark, each with its reason. Jobs, tests and the spark-submit command line use this alone.

Plain data: does not import pyspark, so DAGs can build a command line from it.
"""

from pathlib import Path

from include.contract.environment import Environment
from include.jars.cache import class_path
from include.jars.class_archive import class_archive

PROJECT = Path(__file__).resolve().parents[1]
STATE = "org.apache.spark.sql.execution.streaming.state"
CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"


def spark_settings(environment: Environment) -> dict[str, str]:
    on_one_machine = {**_local_files(), **_loopback()} if environment.local_stack else {}
    return {**_delta_and_kafka(), **_speed(environment), **_state(), **_quiet(), **on_one_machine}


def _delta_and_kafka() -> dict[str, str]:
    jars = class_path("spark")
    return {
        # On the class path from the start: `spark.jars` would copy 23 MB per driver, `--packages` resolves over the network.
        "spark.driver.extraClassPath": jars,
        "spark.executor.extraClassPath": jars,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # A timestamp means the same on every machine.
        "spark.sql.session.timeZone": "UTC",
    }


def _speed(environment: Environment) -> dict[str, str]:
    return {
        # Delta rebuilds a table's snapshot in 50 tasks by default; at our log sizes 2 make 50k-record batches 3.1x faster.
        "spark.databricks.delta.snapshotPartitions": "2",
        # Python workers forked from jobs/python_daemon.py skip a directory scan per task: 6 empty tasks 3.1 s -> 0.8 s.
        "spark.python.daemon.module": "jobs.python_daemon",
        "spark.executorEnv.PYTHONPATH": str(PROJECT),
        # Otherwise each column built in Python also sends its place in the source to the JVM, twice the calls per batch.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # A batch into a merge table needs more than the 100 pieces of generated code that Spark keeps by default, and made 65 of
        # them anew each time.
        "spark.sql.codegen.cache.maxEntries": "1000",
        # It plans every query anew after each of its stages, for sizes that our plans do not depend on: a batch into a merge
        # table takes 6 jobs instead of 12. Spark itself turns it off for what a stream reads.
        "spark.sql.adaptive.enabled": "false",
        # By default 10,000 tasks list a folder of ten files: the VACUUM of a small table took 35 s.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
        "spark.sql.shuffle.partitions": str(environment.spark.shuffle_partitions),
        "spark.driver.memory": environment.spark.driver_memory,
        # A driver is back 4 s earlier when its JVM finds Spark's classes laid out. Quoted, for the place may have a space.
        "spark.driver.extraJavaOptions": f'"-XX:SharedArchiveFile={class_archive()}"',
    }


def _state() -> dict[str, str]:
    return {
        # Keys of a stateful stream lie on disk, not on the heap; a batch writes what it changed, and now and then a snapshot.
        "spark.sql.streaming.stateStore.providerClass": f"{STATE}.RocksDBStateStoreProvider",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # It refuses every sort of a stream, also that within one partition of one batch by which dedupe meets copies in the same
        # order each time. What a stream file may say is checked by its contract and by `row_shape`.
        "spark.sql.streaming.unsupportedOperationCheck": "false",
    }


def _quiet() -> dict[str, str]:
    return {
        # At INFO one batch writes some 200 lines, and what a person looks for drowns.
        "spark.log.level": "WARN",
        # Progress bars on the console fill driver logs with control characters.
        "spark.ui.showConsoleProgress": "false",
        # The driver's web page listens on every address and costs a second at start; progress is told elsewhere.
        "spark.ui.enabled": "false",
    }


def _local_files() -> dict[str, str]:
    return {
        # Spark's own choice, meant for HDFS, starts `readlink` processes whenever it puts one of its logs' files or a checksum of
        # Delta's in place. Without them the child processes of the same 18 short drives took 5.3 s of a core instead of 9.8 s.
        "spark.sql.streaming.checkpointFileManagerClass": f"{CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
        # The same for Delta's commits: who commits first is settled by our commit lock, not by how a file is renamed.
        "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    }


def _loopback() -> dict[str, str]:
    """Spark listens on the machine's public address unless it is told otherwise."""
    return {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
