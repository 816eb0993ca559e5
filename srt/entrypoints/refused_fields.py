"""Fields of other servers' APIs that change nothing here: refused by name if something would be expected of them.

A body declares a field that is not served as `regex: Refused = None` and is checked with `refuse_fields`. A value that
asks for nothing (null, false, 0, an empty string, list or object, "none") is fine, since clients and gateways spell
out defaults. A `Hint` is by its own definition without effect on the answer: taken, whatever it says.
"""

import functools
import inspect
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from srt.errors import InvalidRequest

_NOTHING: list[Any] = [None, False, 0, "", [], {}, "none"]
Refused = Annotated[
    Any, msgspec.Meta(description="known, but not served yet", extra_json_schema={"enum": _NOTHING})
]
Hint = Annotated[Any, msgspec.Meta(description="accepted; of no effect here")]


def refuse_fields(body: msgspec.Struct, *, harmless: Mapping[str, Any] = {}, within: str = "") -> None:
    """Raise InvalidRequest if `body` asks for a field that is declared as Refused.

    `harmless` holds one more value for some fields that asks for nothing; `within` prefixes the name in `param`.
    """
    for name in _refused_names(type(body)):
        value = getattr(body, name)
        if not value or value == "none" or (name in harmless and value == harmless[name]):
            continue
        raise InvalidRequest(f"{name} is not supported by this server", param=within + name)


@functools.cache
def _refused_names(body_type: type[msgspec.Struct]) -> tuple[str, ...]:
    annotations: dict[str, Any] = {}
    # From the root down: a body may serve what its base refuses.
    for base in reversed(body_type.__mro__):
        annotations |= inspect.get_annotations(base)
    return tuple(name for name, kind in annotations.items() if kind is Refused)
