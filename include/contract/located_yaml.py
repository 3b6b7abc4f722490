"""Reads YAML and remembers on which line each key stands. Refuses what a stream file has no use for: two keys of one name,
keys that are not text, anchors and aliases."""

from dataclasses import dataclass
from typing import Any

import yaml

Path = tuple[str | int, ...]


class NotReadable(Exception):
    """Not YAML, or not the YAML we accept. Carries the line, counted from 1."""

    def __init__(self, line: int, complaint: str) -> None:
        super().__init__(complaint)
        self.line = line
        self.complaint = complaint


@dataclass(frozen=True)
class LocatedYaml:
    data: Any
    lines: dict[Path, int]

    def line_of(self, path: Path) -> int:
        """Of the key itself, or of the nearest key around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_located(content: bytes) -> LocatedYaml:
    try:
        loader = yaml.SafeLoader(content)
        node = loader.get_single_node()
        lines: dict[Path, int] = {}
        if node is not None:
            _locate(loader, node, (), lines, set())
        return LocatedYaml(loader.construct_document(node) if node is not None else None, lines)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise NotReadable(line, f"this is not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise NotReadable(1, f"this is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise NotReadable(1, "this is nested too deeply") from error


def _locate(loader: yaml.SafeLoader, node: yaml.Node, path: Path, lines: dict[Path, int], seen: set[int]) -> None:
    line = node.start_mark.line + 1
    if id(node) in seen:  # an alias is the same node again; a few of them can stand for billions of values
        raise NotReadable(lines.get(path, line), "anchors and aliases (& and *) are not used in stream files")
    seen.add(id(node))
    lines.setdefault(path, line)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = _name_of(key)
            if (*path, name) in lines:
                raise NotReadable(key.start_mark.line + 1, f"the key {name!r} stands here a second time")
            lines[(*path, name)] = key.start_mark.line + 1
            _locate(loader, value, (*path, name), lines, seen)
    elif isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            _locate(loader, item, (*path, number), lines, seen)
    else:
        _check_scalar(loader, node, line)


def _check_scalar(loader: yaml.SafeLoader, node: yaml.Node, line: int) -> None:
    """PyYAML answers a date such as 2001-99-99, or a tag that does not fit its value, with errors of many kinds."""
    implied = loader.resolve(yaml.ScalarNode, node.value, (True, False))  # type: ignore[no-untyped-call]
    if node.tag not in (implied, "tag:yaml.org,2002:str"):
        raise NotReadable(line, f"the tag {node.tag!r} is not used in stream files")
    try:
        loader.construct_object(node)
    except (ValueError, OverflowError) as error:
        raise NotReadable(line, f"the value {node.value[:40]!r} cannot be read: {error}") from error


def _name_of(key: yaml.Node) -> str:
    if isinstance(key, yaml.ScalarNode) and key.tag == "tag:yaml.org,2002:str":
        return str(key.value)
    shown = key.value if isinstance(key, yaml.ScalarNode) else "a list or mapping"
    raise NotReadable(key.start_mark.line + 1, f"the key {shown!r} is not text (write it in quotes)")
