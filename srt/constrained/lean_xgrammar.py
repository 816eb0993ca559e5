"""`xgrammar`, imported without the transformers package.

xgrammar looks there for classes, to recognise their instances or to derive from them, which we never use. That import
would cost each scheduler half a second and 60 MB, and in the process that compiles as much again for every start.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

_NAME = "transformers"


@contextmanager
def _stand_in() -> Iterator[None]:
    if _NAME in sys.modules:
        yield
        return
    module = ModuleType(_NAME)
    for class_name in ("PreTrainedTokenizerBase", "PreTrainedTokenizerFast", "LogitsProcessor"):
        setattr(module, class_name, type(class_name, (), {}))
    sys.modules[_NAME] = module
    try:
        yield
    finally:
        del sys.modules[_NAME]


with _stand_in():
    import xgrammar

__all__ = ["xgrammar"]
