"""Spark's checkpoint folders: `spark_log` reads what Spark wrote, `seed` makes a folder that begins at chosen offsets.

Of stateful streams: `examine` finds what is damaged, `carry_over` makes a folder out of an older one, `backup` copies one away,
`rehearse` tries whether it could be had back, `care` does the last two for maintain_checkpoints.

A checkpoint is a cache: the sinks' tidemarks are the truth. Nothing that Spark has written is deleted or overwritten here.
"""
