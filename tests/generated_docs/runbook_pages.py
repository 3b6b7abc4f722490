"""docs/runbooks: from each runbook's docstring, its parameters and its tasks."""

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from tests.generated_docs.marks import generated_from, table
from tests.running import PROJECT

RUNBOOKS = PROJECT / "docs" / "runbooks"
RUNBOOK_FILES = {file.stem: file for file in sorted((PROJECT / "dags" / "runbooks").glob("*.py")) if file.stem != "__init__"}
DESCRIBE = """
import gc, importlib.util, json, sys
import airflow.sdk
gc.disable()  # nobody but the collector holds a DAG whose file gave it no name
def tell(param):
    value = param.dump()["value"]
    told = {} if type(value).__name__ in ("ArgNotSet", "NoneType") else {"default": value}
    return {**told, "schema": param.schema, "description": param.description}
for number, file in enumerate(sys.argv[1:]):
    spec = importlib.util.spec_from_file_location(f"parsed_{number}", file)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
dags = {dag.dag_id: dag for dag in gc.get_objects() if type(dag) is airflow.sdk.DAG}
print(json.dumps({
    name: {
        "params": {key: tell(dag.params.get_param(key)) for key in dag.params},
        "tasks": [task.task_id for task in dag.topological_sort()],
    }
    for name, dag in dags.items()
}))
"""
PAGE = """{generated}
# {title}

In Airflow: *Dags*, `{name}`, *Trigger*. All runbooks: [README.md](README.md).

{manual}

## Parameters

{parameters}

## The run

{tasks}

`check` and `plan` only read. `approve` passes by itself unless the plan needs a person. `report` always runs: it says what
was touched and what was not, and fails if a step before it failed. Every act stands in the journal with its reason.
"""


def runbook_page(name: str, dag: dict[str, Any]) -> str:
    title, _, manual = _manual(name).partition("\n")
    head = ("in the form", "name", "required", "default", "accepted", "meaning")
    return PAGE.format(
        generated=generated_from(f"dags/runbooks/{name}.py"),
        title=title.removeprefix("### "),
        name=name,
        manual=_with_links(manual.strip()),
        parameters=table(head, [_param_row(key, param) for key, param in dag["params"].items()]),
        tasks=" → ".join(f"`{task}`" for task in dag["tasks"]),
    )


def runbook_index() -> str:
    return table(("runbook", "what it does"), [(f"[{name}]({name}.md)", _with_links(_purpose(name))) for name in RUNBOOK_FILES])


@cache
def describe_dags() -> dict[str, Any]:
    """Parameters and tasks, read in a process of its own, without any stream file: the pages are the same whatever runs."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("config/schemas", "config/streams"):
            (Path(folder) / name).mkdir(parents=True)
        done = subprocess.run(
            [sys.executable, "-c", DESCRIBE, *map(str, RUNBOOK_FILES.values())],
            cwd=PROJECT,
            env={**os.environ, "AIRFLOW_HOME": folder, "PYTHONPATH": str(PROJECT), "TIDEMARK_CONFIG": f"{folder}/config"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    described = dict(json.loads(done.stdout.splitlines()[-1]))
    assert set(described) == set(RUNBOOK_FILES), "a runbook's file is named for its DAG"
    return dict(sorted(described.items()))


def _manual(name: str) -> str:
    return (ast.get_docstring(ast.parse(RUNBOOK_FILES[name].read_text())) or "").strip()


def _purpose(name: str) -> str:
    """The manual's first paragraph."""
    return " ".join(_manual(name).split("\n\n")[1].split())


def _with_links(manual: str) -> str:
    """*restart_stream* becomes a link to its page."""

    def link(found: re.Match[str]) -> str:
        return f"[{found[1]}]({found[1]}.md)" if found[1] in RUNBOOK_FILES else found[0]

    return re.sub(r"(?<!\*)\*(\w+)\*(?!\*)", link, manual)


def _param_row(name: str, param: dict[str, Any]) -> tuple[str, ...]:
    schema = param["schema"]
    default = f"`{json.dumps(param['default'])}`" if "default" in param else ""
    return schema["title"], f"`{name}`", "no" if default else "yes", default, _accepted(schema), param["description"]


def _accepted(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{choice}`" for choice in schema["enum"])
    if schema["type"] == "string":
        longest = schema.get("maxLength")
        return f"text of {schema['minLength']} to {longest} characters" if longest else "the name of a stream"
    return {"boolean": "on or off", "object": "JSON: a whole number for each partition"}[schema["type"]]
