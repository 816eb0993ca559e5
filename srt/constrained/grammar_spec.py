"""`GrammarSpec`: what an answer must look like, as the client said it. Not compiled, not checked."""

from typing import Literal

import msgspec

GrammarKind = Literal["json_schema", "regex", "ebnf", "structural_tag"]


class GrammarSpec(msgspec.Struct, frozen=True, array_like=True, gc=False, kw_only=True):
    """The whole answer matches `text`: a JSON schema, a regular expression, an EBNF, or xgrammar's structural tags.

    With `begins_after` ("</think>") nothing is constrained until the answer has said that, token for token, and
    everything behind it is. An answer whose prompt already ends with the thinking switched off has none.
    """

    kind: GrammarKind
    text: str
    begins_after: str | None = None
