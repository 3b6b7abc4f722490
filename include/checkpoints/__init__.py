"""Spark's checkpoint folders: `spark_log` reads what Spark wrote, `seed` makes a folder that begins at chosen offsets.

A checkpoint is a cache: the sinks' tidemarks are the truth. Nothing here deletes or overwrites.
"""
