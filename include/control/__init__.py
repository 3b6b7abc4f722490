"""The control database: what was launched, which generations there were, how far they came, how they ended.

It is never the truth about data, which the sinks hold; a stream goes on while it is down, and it is filled again after.
"""
