"""`import_by_name`: the module that a name stands for, imported when it is asked for."""

import importlib
from collections.abc import Mapping
from types import ModuleType

from srt.errors import StartupError


def import_by_name(modules: Mapping[str, str], name: str, what: str) -> ModuleType:
    """The module that `modules` gives for `name`. Raises StartupError that lists the names there are."""
    path = modules.get(name)
    if path is None:
        raise StartupError(f"there is no {what} called {name}, only {', '.join(modules)}")
    return importlib.import_module(path)
