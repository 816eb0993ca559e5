"""`--config FILE`: flags from a YAML, JSON or TOML file, as the command line would have them.

One level of keys, each a flag's name, with dashes or underscores. What the command line says itself wins.
"""

import difflib
import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import yaml

from srt.errors import StartupError
from srt.server_args.flag import FlagInfo

WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


class KnownFlag(Protocol):
    """What has to be known of a flag."""

    @property
    def option(self) -> str:
        """As it is typed."""
        ...

    @property
    def value_type(self) -> type:
        """What it takes; bool for a switch."""
        ...

    @property
    def info(self) -> FlagInfo:
        """Choices and other spellings."""
        ...


def arguments_from(path: Path, flags: Iterable[KnownFlag]) -> list[str]:
    """What could be typed instead of this file. Raises StartupError with everything that is wrong in it."""
    by_spelling = {spelling: flag for flag in flags for spelling in (flag.option, *flag.info.aliases)}
    arguments: list[str] = []
    problems: list[str] = []
    seen: dict[str, str] = {}
    for key, value in _read(path).items():
        option = "--" + str(key).replace("_", "-")
        flag = by_spelling.get(option)
        if flag is None:
            problems.append(_unknown(str(key), option, by_spelling))
        elif flag.option in seen:
            problems.append(f"{key} and {seen[flag.option]} are the same flag")
        else:
            seen[flag.option] = str(key)
            try:
                arguments += _arguments(flag, value)
            except ValueError as error:
                problems.append(f"{key} {error}")
    if problems:
        raise StartupError(f"{path}: " + "; ".join(problems))
    return arguments


def _read(path: Path) -> Mapping[Any, Any]:
    readers: Mapping[str, Callable[[str], Any]] = {".json": json.loads, ".toml": tomllib.loads}
    try:
        found = readers.get(path.suffix, yaml.safe_load)(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StartupError(f"--config {path} cannot be read: {error.strerror}") from None
    except (ValueError, yaml.YAMLError) as error:  # the other two raise ValueErrors
        raise StartupError(f"--config {path} cannot be read: {' '.join(str(error).split())}") from None
    if found is None:  # nothing, or comments only
        return {}
    if not isinstance(found, dict):
        raise StartupError(f"--config {path} must be a list of `flag: value`")
    return found


def _arguments(flag: KnownFlag, value: Any) -> Iterator[str]:
    """Raises ValueError, whose text goes behind the key."""
    if value is None:
        return  # as if it were not there
    is_bool = isinstance(value, bool)
    if flag.value_type is bool:
        if not is_bool:
            raise ValueError(f"must be true or false, not {value!r}")
        if value:
            yield flag.option
        return
    accepted = (int, float) if flag.value_type is float else flag.value_type
    if is_bool or not isinstance(value, accepted):
        quoted = (
            ", so it needs quotes" if flag.value_type is str and not isinstance(value, list | dict) else ""
        )
        shown = "what it is" if flag.info.secret else repr(value)
        raise ValueError(f"must be {WORDS[flag.value_type]}, not {shown}{quoted}")
    if flag.info.choices is not None and value not in flag.info.choices:
        raise ValueError(f"must be one of {', '.join(map(str, flag.info.choices))}, not {value!r}")
    yield f"{flag.option}={value}"


def _unknown(key: str, option: str, spellings: Iterable[str]) -> str:
    near = difflib.get_close_matches(option, spellings, n=3)
    names = " or ".join(spelling.removeprefix("--") for spelling in near)
    return f"there is no flag {key}" + (f"; did you mean {names}?" if names else "")
