"""Housekeeping: removes what has served its time, one module per kind of thing, for the daily DAG. Knows no Airflow.

Each may be killed anywhere, may run beside another run of itself, and never touches what a living driver uses.
"""
