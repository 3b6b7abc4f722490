"""Spark's checkpoint folders: `spark_log` reads what Spark wrote, `seed` makes a folder that begins at chosen offsets.

A checkpoint is a cache: the sinks' tidemarks are the truth. Nothing that Spark has written is deleted or overwritten here.
"""
