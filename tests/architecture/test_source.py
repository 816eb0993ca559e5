"""What every source file owes its reader."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("srt", "managers", "mem_cache")
FIRST_ON_THE_PATH, LAST_ON_THE_PATH = "launch_server.py", "srt/entrypoints/sse.py"
NEXT_ON_THE_PATH = re.compile(r"Next on the request's path: (\S+)")
LONGEST_FILE = 400
NAMES_THAT_SAY_NOTHING = re.compile(r"(^|_)(utils?|common|helpers?|misc|mixins?|info|part\d)$")
RUNS_WHAT_IT_READS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "shelve", "marshal"}


def code_files() -> Iterator[str]:
    yield FIRST_ON_THE_PATH
    yield "http_worker.py"
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield str(path.relative_to(ROOT))


def python_files() -> Iterator[str]:
    yield from code_files()
    for folder in ("scripts", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT))


def parse(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text(encoding="utf-8"), filename=file)


def docstring(file: str) -> str:
    return ast.get_docstring(parse(file)) or ""


def next_on_the_path(file: str) -> str | None:
    """Whom the docstring's last line names, if that is what it does."""
    lines = docstring(file).splitlines()
    match = NEXT_ON_THE_PATH.fullmatch(lines[-1]) if lines else None
    return match[1] if match else None


def walk_the_path() -> list[str]:
    trail = [FIRST_ON_THE_PATH]
    while (following := next_on_the_path(trail[-1])) is not None:
        assert (ROOT / following).is_file(), (
            f"{trail[-1]} sends the reader to {following}, which is not there"
        )
        assert following not in trail, f"{trail[-1]} sends the reader back to {following}"
        trail.append(following)
    return trail


def test_the_requests_path_can_be_read_from_the_first_file_to_the_last() -> None:
    assert walk_the_path()[-1] == LAST_ON_THE_PATH


def test_every_side_road_leads_onto_the_path() -> None:
    """Another endpoint's handler, or what starts a process, may say where it joins."""
    joins = {file: NEXT_ON_THE_PATH.search(docstring(file)) for file in code_files()}
    on_the_path = walk_the_path()
    lost = {file: match[1] for file, match in joins.items() if match and match[1] not in on_the_path}
    assert lost == {}


@pytest.mark.parametrize("file", [file for file in code_files() if not file.endswith("__init__.py")])
def test_a_file_opens_by_saying_what_it_owns(file: str) -> None:
    first_line = docstring(file).partition("\n")[0]
    assert len(first_line.split()) >= 2, f"{file} begins without a sentence about itself"


def test_no_file_is_too_long_to_be_read_at_one_go() -> None:
    lengths = {file: len((ROOT / file).read_text(encoding="utf-8").splitlines()) for file in python_files()}
    assert {file: length for file, length in lengths.items() if length > LONGEST_FILE} == {}


def test_every_file_is_named_after_what_is_in_it() -> None:
    assert [file for file in python_files() if NAMES_THAT_SAY_NOTHING.search(Path(file).stem)] == []


def test_nothing_that_is_read_can_run_code() -> None:
    """No pickle and its kin, no eval: not on a socket, not in a file."""
    offences: list[str] = []
    for file in code_files():
        for node in ast.walk(parse(file)):
            names = set()
            if isinstance(node, ast.Import):
                names = {alias.name.partition(".")[0] for alias in node.names} & RUNS_WHAT_IT_READS
            elif isinstance(node, ast.ImportFrom):
                names = {(node.module or "").partition(".")[0]} & RUNS_WHAT_IT_READS
            elif isinstance(node, ast.Call):
                names = {ast.unparse(node.func)} & {"eval", "exec", "torch.load"}
            offences.extend(f"{file}:{getattr(node, 'lineno', 0)} {name}" for name in names)
    assert offences == []


def test_only_one_file_knows_the_environment_variables_of_ours() -> None:
    knowing = [
        file
        for file in code_files()
        for node in ast.walk(parse(file))
        if isinstance(node, ast.Constant) and re.fullmatch(r"LOCKSTEP_[A-Z_]+", str(node.value))
    ]
    assert set(knowing) == {"srt/env.py"}
