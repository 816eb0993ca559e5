"""Grammar back ends by the name of --grammar-backend."""

from typing import cast

from srt.constrained.grammar import GrammarBackend
from srt.util.registry import import_by_name

NONE = "none"
_MODULES = {"xgrammar": "srt.constrained.xgrammar_backend"}


def grammar_backend(name: str) -> GrammarBackend | None:
    """The back end's module; None for `none`. Raises StartupError for an unknown name."""
    if name == NONE:
        return None
    return cast("GrammarBackend", import_by_name(_MODULES, name, "grammar back end"))
