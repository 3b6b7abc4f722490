"""How a value becomes JSON text, wherever it goes: a time keeps its microseconds, and a field that is NULL is told."""

JSON_OPTIONS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "false"}
