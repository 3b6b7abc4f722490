"""Proves that Kafka and a sink agree (P7): choose a window, audit its ledger, measure both sides, judge, tell.

Measuring is Spark's work and lies in jobs/measure_window.py; what passes between the steps stands in the control database.
"""
