"""The guide and the other pages: links lead somewhere, flags are flags. (`scripts/check` builds the guide itself.)"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from srt.server_args.cli import flag_groups
from tests.guide_pages import without_code

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FILE = re.compile(
    r"(?:(?:srt|managers|mem_cache|tests|scripts|docs)/[\w./-]*|[\w./-]+\.(?:py|cpp|h))(?![\w{*])"
)
OPTION = re.compile(r"--[a-z][a-z0-9-]*")
OURS = {
    option for group in flag_groups() for flag in group.flags for option in (flag.option, *flag.info.aliases)
}
OURS |= {"--config", "--help"}
OURS |= {
    option
    for script in (ROOT / "scripts").glob("*.py")
    for option in re.findall(r"\"(--[a-z-]+)\"", script.read_text(encoding="utf-8"))
}
# Of others' commands that pages show.
OTHERS = {
    *("--extra-index-url", "--gpus", "--restart", "--shm-size", "--target"),  # pip, docker
    *("--offline", "--strict"),  # systemd-analyze, kubernetes-validate
    *("--max-num-seqs", "--torchao-config"),  # vLLM, SGLang
}


def files() -> list[Path]:
    """What belongs to the repository, as far as it is there."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(path for name in listed.stdout.splitlines() if (path := ROOT / name).exists())


FILES = files()
PAGES = [path for path in FILES if path.suffix == ".md"]
PATHS = {f"/{path.relative_to(ROOT)}" for path in FILES}


def is_there(name: str) -> bool:
    """A name may begin in any folder: a page speaks of its neighbours, too."""
    return (ROOT / name).exists() or any(path.endswith(f"/{name.lstrip('./')}") for path in PATHS)


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", without_code(page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> Iterator[str]:
    for link in LINK.findall(without_code(page.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        path, _, anchor = link.replace("\\_", "_").partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    codes = re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8"))
    named = {name for code in codes if not re.search(r"[{*]", code) for name in FILE.findall(code)}
    assert [name for name in sorted(named) if not is_there(name)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_every_flag_of_a_page_is_one(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page.name.startswith("from_") or page.name == "differences.md":
        # The first column is somebody else's, and so is what is quoted with their name.
        rows = [line.split("|")[2:] for line in text.splitlines() if line.startswith("|")]
        text = re.sub(r"\(SGLang: [^)]*\)", "", "\n".join("|".join(cells) for cells in rows))
    asked = {option for code in re.findall(r"`([^`\n]+)`", text) for option in OPTION.findall(code)}
    assert asked - OURS - OTHERS == set()


def test_the_flags_that_stay_when_one_comes_from_sglang_are_there() -> None:
    text = (DOCS / "from_sglang.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"## Flags that stay\n(.*?)\n## ", text, re.DOTALL)
    names = {
        option for row in re.findall(r"^\| (.*?) \|", section, re.MULTILINE) for option in OPTION.findall(row)
    }
    assert len(names) > 30
    assert names - OURS == set()
