"""The embedded stack: PostgreSQL, Kafka and Airflow as ordinary processes of one machine, on loopback.

The flow: `prepare` makes .venv and fetches the jars; `command_line` reads what was asked; `stack` starts, stops and
describes the parts (`postgres`, `kafka`, `airflow`), each a `Part` that runs as a detached process (`processes`).
"""
