"""A page of docs/ that a script writes: write it, or see that it is what the script would write."""

import argparse
import sys
from pathlib import Path


def write_or_check(page: Path, text: str, *, script: str) -> int:
    """By the command line. Exit code 1 when `--check` finds the page out of date."""
    name = f"{page.parent.name}/{page.name}"
    parser = argparse.ArgumentParser(description=f"Write {name}.")
    parser.add_argument(
        "--check", action="store_true", help="Write nothing; fail if the page is out of date."
    )
    if not parser.parse_args().check:
        page.write_text(text, encoding="utf-8")
    elif not page.exists() or page.read_text(encoding="utf-8") != text:
        print(f"{name} is out of date: run python -m scripts.{script}", file=sys.stderr)
        return 1
    return 0
