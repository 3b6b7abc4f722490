"""`make bench-state`: five million keys in dedupe's state. How much memory a driver takes, whether a batch costs more when the
state is full, and how long a start takes that continues the state or makes it again from Kafka. KEYS= for another number.

Drivers are processes as `make run` starts them, with the heap that config/environments/local.yaml gives them.
"""

import os
import re
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import psutil
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from include.control.database import ControlDatabase
from include.control.drivers import newest_generation
from include.control.state_health import OperatorState, StateHealth
from include.local_stack.home import PROJECT, VAR, StackHome
from include.local_stack.stack import Stack

KEYS = int(os.environ.get("KEYS") or 5_000_000)
PARTITIONS, BATCH, DUPLICATES = 4, 200_000, 100_000
BEGINS, LASTS_MS = datetime.fromisoformat("2026-11-01T10:00:00+00:00"), 9 * 60_000  # shorter than `within`: nothing is forgotten
LOOK_EVERY_SECONDS = 0.5
MOST_MEGABYTES = 3_000  # of memory that a driver may take
A_BATCH = re.compile(r"batch +\d+: +([\d,]+) read, .*? in +([\d.]+) s \(")


def main() -> None:
    stack, name = Stack(StackHome(VAR / "bench"), with_airflow=False), f"state_{uuid.uuid4().hex[:8]}"
    try:
        stack.up()
        config = stream_file(stack.home.folder / "config" / name, name)
        address = stack.kafka.connection.address
        admin = AdminClient({"bootstrap.servers": address})  # kept until its answer has come
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(15)
        send(address, name, range(KEYS))
        measure(stack, config, name)
    finally:
        stack.down()


def measure(stack: Stack, config: Path, name: str) -> None:
    filled = drive(stack, config, name)
    filled.tell(f"{KEYS:,} keys")
    edge = max(1, len(filled.seconds) // 5)
    first, last = statistics.median(filled.seconds[1 : edge + 1]), statistics.median(filled.seconds[-edge:])
    print(f"  a batch of {BATCH:,}: the first ones {first:.2f} s, the last ones {last:.2f} s, {last / first:.2f}x", flush=True)
    for operator in operators(stack, name):
        memory, disk = operator.memory_bytes / 1e6, operator.disk_bytes / 1e6
        print(f"  {operator.operator}: {operator.rows:,} rows, {memory:,.0f} MB in memory, {disk:,.0f} MB on disk", flush=True)
    again = range(0, KEYS, KEYS // DUPLICATES)
    for way in ("continue", "warm_up"):
        send(stack.kafka.connection.address, name, again)
        drive(stack, config, name, f"--state={way}").tell(f"{way}, then {len(again):,} that are known")


@dataclass(frozen=True)
class Drive:
    """One driver, from its start to its end. `megabytes`: the most that its JVM had in memory."""

    whole_seconds: float
    seconds: list[float]
    read: int
    delivered: int
    megabytes: float

    def tell(self, what: str) -> None:
        counts = f"{self.read:,} read, {self.delivered:,} delivered in {self.whole_seconds:.0f} s"
        print(f"{what}: {counts}, JVM {self.megabytes:,.0f} MB", flush=True)
        if self.megabytes > MOST_MEGABYTES:
            raise SystemExit(f"that is more than {MOST_MEGABYTES:,} MB")


def drive(stack: Stack, config: Path, name: str, *arguments: str) -> Drive:
    log, began = stack.home.folder / f"{name}.log", time.monotonic()
    environment = {**os.environ, **stack.job_environment(), "TIDEMARK_CONFIG": str(config)}
    with log.open("w") as out:
        command = [sys.executable, "-m", "jobs.run_stream", name, "--once", *arguments]
        driver = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=out, stderr=subprocess.STDOUT)
        megabytes = 0.0
        while driver.poll() is None:
            megabytes = max([megabytes, *_jvm_megabytes(driver.pid)])
            time.sleep(LOOK_EVERY_SECONDS)
    text = log.read_text()
    if driver.returncode:
        raise SystemExit(f"the driver ended with {driver.returncode}:\n{text[-3000:]}")
    batches = [(int(read.replace(",", "")), float(seconds)) for read, seconds in A_BATCH.findall(text)]
    delivered = sum(int(number.replace(",", "")) for number in re.findall(r"read, +([\d,]+) delivered", text))
    with_records = [seconds for read, seconds in batches if read]
    return Drive(time.monotonic() - began, with_records, sum(read for read, _ in batches), delivered, megabytes)


def _jvm_megabytes(pid: int) -> list[float]:
    """The high-water mark that the kernel keeps, so no peak falls between two looks."""
    found = []
    try:
        for process in psutil.Process(pid).children(recursive=True):
            if process.name() == "java":
                status = Path(f"/proc/{process.pid}/status").read_text()
                found += [int(kilobytes) / 1000 for kilobytes in re.findall(r"VmHWM:\s+(\d+) kB", status)]
    except (psutil.Error, OSError):  # it has just ended
        pass
    return found


def operators(stack: Stack, name: str) -> Iterable[OperatorState]:
    with ControlDatabase(stack.postgres.connection("tidemark")).transaction() as cursor:
        generation = newest_generation(cursor, name)
        cursor.execute(
            "SELECT state FROM progress WHERE stream = %s AND generation = %s ORDER BY batch DESC LIMIT 1", (name, generation)
        )
        row = cursor.fetchone()
    return StateHealth.from_plain(row[0]).operators if row else ()


def send(address: str, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 50, "compression.type": "lz4"})
    for number in numbers:
        time_of = BEGINS + timedelta(milliseconds=number * LASTS_MS // KEYS)
        value = f'{{"event_id":"{number:036d}","user_id":"u{number % 50_000}","amount":1,"ts":"{time_of.isoformat()}"}}'
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def stream_file(config: Path, name: str) -> Path:
    for folder in ("schemas", "streams"):
        (config / folder).mkdir(parents=True, exist_ok=True)
    (config / "schemas" / "payment.yaml").write_text((PROJECT / "config" / "schemas" / "payment.yaml").read_text())
    content = yaml.safe_load((PROJECT / "config" / "streams" / "user_event_counts.yaml").read_text())
    content["source"] |= {"topic": name, "max_records_per_batch": BATCH}
    content["sinks"]["counts"]["table"] = name
    (config / "streams" / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return config


if __name__ == "__main__":
    main()
