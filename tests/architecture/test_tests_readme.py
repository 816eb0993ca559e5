"""tests/README.md names tests, so that people find them: each is there."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", (TESTS / "README.md").read_text())


def test_every_test_that_the_readme_names_exists() -> None:
    assert NAMED
    missing = [f"{file}::{name}" for file, name in NAMED if name not in names_in(TESTS / file)]
    assert not missing


def names_in(file: Path) -> set[str]:
    """What a module defines, and what it gives a name by an assignment."""
    body = ast.parse(file.read_text()).body
    defined = {
        node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    assigned = {
        target.id
        for node in body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return defined | assigned
