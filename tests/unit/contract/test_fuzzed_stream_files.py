"""2,000 stream files that people, editors and line noise might produce: accepted, or refused in sentences. Nothing else."""

import random
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from include.contract.catalog import config_folder, load_streams
from include.contract.problems import StreamFilesInvalid

FILES = 2_000
VALID, STATEFUL = ((config_folder() / "streams" / f"{name}.yaml").read_text() for name in ("orders_raw", "payment_totals"))
TOKENS = [
    *(
        "null",
        "true",
        "-1",
        "1e400",
        "2024-13-45",
        "0x",
        "~",
        "''",
        "[]",
        "{}",
        "!!python/object:x {}",
        "&a",
        "*a",
        "<<",
        "? ",
        "- ",
    ),
    *(
        "\t",
        "\x00",
        "é",
        "\U0001f4a5",
        "9" * 5000,
        "[" * 300,
        "{" * 300,
        "a" * 3000,
        "${x}",
        "{{ y }}",
        "--",
        "/*",
        ";",
        "'",
        '"',
        "`",
    ),
    *("1 MB", "5 seconds", "99999999999 days", "select 1", "count(*)", "a.b.c", "x -> x + 1", "cast(1 as", ":p", "?", "date'x'"),
]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("config")
    shutil.copytree(config_folder() / "schemas", folder / "schemas")
    (folder / "streams").mkdir()
    return folder


def mutate(seed: int) -> bytes:
    chance = random.Random(seed)  # noqa: S311 - not a secret
    lines = chance.choice([VALID, STATEFUL]).splitlines()
    for _ in range(chance.randint(1, 4)):
        number = chance.randrange(len(lines))
        line = lines[number]
        cut = chance.randrange(len(line) + 1)
        lines[number : number + 1] = chance.choice(
            [
                [],
                [line, line],
                [line[:cut] + chance.choice(TOKENS) + line[cut:]],
                [line[:cut]],
                [line.partition(":")[0] + ": " + chance.choice(TOKENS)],
                ["  " + line],
            ]
        ) or [""]
    return "\n".join(lines).encode()


def load(config: Path, content: bytes) -> None:
    (config / "streams" / "fuzzed.yaml").write_bytes(content)
    problems = []
    try:
        load_streams(config)
    except StreamFilesInvalid as refused:
        problems = refused.problems
    assert not [problem for problem in problems if problem.line < 1 or not problem.complaint.endswith((".", "?"))]


@settings(max_examples=FILES // 2, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_a_damaged_stream_file_is_accepted_or_refused_in_sentences(config: Path, seed: int) -> None:
    load(config, mutate(seed))


@settings(max_examples=FILES // 2, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
@given(content=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass"))))
def test_noise_is_refused_in_sentences(config: Path, content: bytes) -> None:
    load(config, content)


@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
@given(text=st.text(alphabet="abts()*+-/<>=.,'\"` 0159&|!~[]{}:;?$@#%^\\\n\tamount", max_size=60))
def test_any_text_as_an_expression_is_accepted_or_refused_in_sentences(config: Path, text: str) -> None:
    quoted = "'" + text.replace("'", "''").replace("\n", " ").replace("\t", " ") + "'"
    load(config, VALID.replace("amount > 0", quoted).encode())
