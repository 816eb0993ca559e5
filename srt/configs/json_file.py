"""Read a JSON object from a checkpoint and take typed values out of it, with errors for the operator."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srt.errors import StartupError


@dataclass(frozen=True, slots=True)
class JsonObject:
    """An object and where it came from. A key that is absent and one that is null are the same."""

    path: Path
    values: dict[str, Any]

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number. Raises StartupError if it is missing and there is no default."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(f"{key} must be a whole number, not {value!r}")
        return value

    def positive(self, key: str, default: int | None = None) -> int:
        """A whole number above 0."""
        value = self.integer(key, default)
        if value < 1:
            raise self.error(f"{key} must be at least 1, not {value}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Any number."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(f"{key} must be a number, not {value!r}")
        return float(value)

    def boolean(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise self.error(f"{key} must be true or false, not {value!r}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A string."""
        value = self._get(key, default)
        if not isinstance(value, str):
            raise self.error(f"{key} must be a string, not {value!r}")
        return value

    def child(self, key: str) -> "JsonObject | None":
        """An object inside, None if it is absent or empty."""
        value = self.values.get(key)
        if not value:
            return None
        if not isinstance(value, dict):
            raise self.error(f"{key} must be an object, not {value!r}")
        return JsonObject(self.path, value)

    def has(self, key: str) -> bool:
        """Whether the key is there and not null."""
        return self.values.get(key) is not None

    def error(self, problem: str) -> StartupError:
        """The exception that says what is wrong with this file."""
        return StartupError(f"{self.path}: {problem}")

    def _get(self, key: str, default: Any) -> Any:
        value = self.values.get(key)
        if value is not None:
            return value
        if default is None:
            raise self.error(f"{key} is missing")
        return default


def read_json(path: Path) -> JsonObject:
    """The object in a file. Raises StartupError if there is no such file or no object in it."""
    try:
        values = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise StartupError(f"{path} does not exist") from None
    except OSError as error:
        raise StartupError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # not JSON, or not even text
        raise StartupError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(values, dict):
        raise StartupError(f"{path} holds no JSON object")
    return JsonObject(path, values)


def read_json_if_there(path: Path) -> JsonObject:
    """The same; an empty object if there is no such file."""
    return read_json(path) if path.exists() else JsonObject(path, {})
