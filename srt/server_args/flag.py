"""`flag()`: one field of a flag group, with its default, help, choices and aliases, declared once."""

import dataclasses
from collections.abc import Sequence
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class FlagInfo:
    """What the command line and the documentation need beyond name, type and default."""

    help: str
    choices: Sequence[Any] | None = None
    aliases: Sequence[str] = ()
    secret: bool = False  # never shown by /server_info or a log


def flag(
    default: Any,
    *,
    help: str,  # noqa: A002 (argparse's own word)
    choices: Sequence[Any] | None = None,
    aliases: Sequence[str] = (),
    secret: bool = False,
) -> Any:
    """A dataclass field that is also a command-line flag: `page_size` becomes `--page-size`."""
    info = FlagInfo(help=help, choices=choices, aliases=aliases, secret=secret)
    return dataclasses.field(default=default, metadata={"flag": info})
