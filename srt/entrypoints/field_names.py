"""Errors speak the engine's names of fields; the client wrote its API's."""

import contextlib
import re
from collections.abc import Iterator, Mapping

from srt.errors import RequestError


@contextlib.contextmanager
def api_field_names(names: Mapping[str, str]) -> Iterator[None]:
    """Within, a RequestError about `max_new_tokens` becomes one about `max_tokens`, if `names` says so."""
    try:
        yield
    except RequestError as error:
        if error.param is not None:
            error.param = names.get(error.param, error.param)
        for ours, theirs in names.items():
            if "_" in ours:  # others are words of the language too
                error.message = re.sub(rf"\b{ours}\b", theirs, error.message)
        raise
