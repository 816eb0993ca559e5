"""The command line, built from the flag groups: no flag is written twice."""

import argparse
import dataclasses
import sys
import types
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from srt import __version__, env
from srt.errors import StartupError
from srt.server_args.config_file import arguments_from
from srt.server_args.flag import FlagInfo
from srt.server_args.server_args import ServerArgs

CONFIG_HELP = (
    "YAML, JSON or TOML file with any of the flags below: `page-size: 16`. What is typed here itself wins."
)
# Other names that users know for the same number format.
DTYPE_SPELLINGS = {"float": "float32", "half": "float16"}


@dataclasses.dataclass(frozen=True, slots=True)
class Flag:
    """One flag as the command line and the flag page see it. `value_type` is bool for a switch."""

    name: str  # the field's
    value_type: type
    default: Any
    info: FlagInfo

    @property
    def option(self) -> str:
        """`page_size` is typed `--page-size`."""
        return "--" + self.name.replace("_", "-")


@dataclasses.dataclass(frozen=True, slots=True)
class FlagGroup:
    """The flags of one file, under the title that its class gives them."""

    title: str
    flags: tuple[Flag, ...]


def flag_groups() -> Iterator[FlagGroup]:
    """Every flag there is, group by group, in the order in which they are declared."""
    for group in ServerArgs.__bases__:
        types_by_name = typing.get_type_hints(group)
        flags = tuple(
            Flag(field.name, _value_type(types_by_name[field.name]), field.default, field.metadata["flag"])
            for field in dataclasses.fields(group)
        )
        yield FlagGroup(title=(group.__doc__ or group.__name__).rstrip("."), flags=flags)


def parse_args(argv: Sequence[str] | None = None) -> ServerArgs:
    """`argv` (default: the process's own) as ServerArgs, spelled in one way but not yet checked.

    Exits with a usage message, as argparse does, when a flag is unknown or its value has the wrong type, here or in
    the file of --config.
    """
    argv = sys.argv[1:] if argv is None else argv
    parser = build_parser()
    values = vars(parser.parse_args(argv))
    config = values.pop("config")
    if config is not None:
        try:
            known = [flag for group in flag_groups() for flag in group.flags]
            from_file = arguments_from(Path(config), known)
        except StartupError as error:
            parser.error(str(error))
        values = vars(parser.parse_args([*from_file, *argv]))  # what comes last counts
        del values["config"]
    values["dtype"] = DTYPE_SPELLINGS.get(values["dtype"], values["dtype"])
    return ServerArgs(**values)


def build_parser() -> argparse.ArgumentParser:
    """The parser of every flag, with its help grouped as the files are."""
    parser = argparse.ArgumentParser(
        prog="python -m launch_server",
        description="Serve a language model over HTTP.",
        # An abbreviation that works today is ambiguous tomorrow, when a flag is added.
        allow_abbrev=False,
        epilog="Environment: " + " ".join(f"{variable.name}: {variable.help}" for variable in env.ALL),
    )
    parser.add_argument("--version", action="version", version=f"lockstep {__version__}")
    parser.add_argument("--config", metavar="FILE", help=CONFIG_HELP)
    for group in flag_groups():
        section = parser.add_argument_group(group.title)
        for flag in group.flags:
            _add_flag(section, flag)
    return parser


def _add_flag(section: argparse._ArgumentGroup, flag: Flag) -> None:
    spellings = (flag.option, *flag.info.aliases)
    help_text = flag.info.help.replace("%", "%%")
    if flag.value_type is bool:
        section.add_argument(*spellings, dest=flag.name, action="store_true", help=help_text)
        return
    if flag.default is not None:
        help_text += " (default: %(default)s)"
    section.add_argument(
        *spellings,
        dest=flag.name,
        type=flag.value_type,
        default=flag.default,
        choices=flag.info.choices,
        metavar=None if flag.info.choices else flag.value_type.__name__.upper(),
        help=help_text,
    )


def _value_type(annotation: Any) -> type:
    """`int | None` is read as int: None only stands for a default that is decided later."""
    if isinstance(annotation, types.UnionType):
        (annotation,) = (part for part in typing.get_args(annotation) if part is not types.NoneType)
    return typing.cast("type", annotation)
