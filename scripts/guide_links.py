"""What mkdocs does not do by itself for the guide: links out of docs/, and lists and tables as GitHub reads them.

Pages of docs/ link to files of the repository. The guide has no such files, so there these links become their text;
that they lead somewhere is checked here.
"""

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

from markdown import Extension, Markdown
from markdown.blockprocessors import CodeBlockProcessor

logger = logging.getLogger(f"mkdocs.{__name__}")  # whose warnings fail a strict build

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)#\s]*)(?:#[^)\s]*)?\)")
INLINE_CODE = re.compile(r"<code>[^<]*</code>")
LIST_INDENT = 2


class GitHubLists(Extension):  # type: ignore[misc]  # Markdown has no types
    """What belongs to an item of a list is two columns further in, not four."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 (their name)
        """Called by Markdown."""
        for processor in md.parser.blockprocessors:
            if not isinstance(processor, CodeBlockProcessor):
                processor.tab_length = LIST_INDENT


def on_config(config: Any) -> Any:
    """Called by mkdocs."""
    config.markdown_extensions.append(GitHubLists())
    return config


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Called by mkdocs with each page's source."""
    folder = posixpath.dirname(page.file.src_uri)

    def without_outside(link: re.Match[str]) -> str:
        text, target = link.groups()
        path = posixpath.normpath(posixpath.join("docs", folder, target))
        if path.startswith("docs/"):
            return link[0]
        if not (ROOT / path).exists():
            logger.warning("%s links to %s, which is not there", page.file.src_uri, path)
        return text

    return LINK.sub(without_outside, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Called by mkdocs with each page's body. In a table, a bar in code has a backslash, which GitHub leaves out."""
    return INLINE_CODE.sub(lambda code: code[0].replace("\\|", "|"), html)
