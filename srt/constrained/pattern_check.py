r"""`pattern_problem`: what a regular expression asks for and the back end would read otherwise, without a word.

Patterns match whole texts here, so anchors at their ends change nothing. Other anchors, lookaround and flags would be
ignored. What the back end refuses by itself (backreferences, `\b`, `\p{…}`) is left to it.
"""

import re

_ALTERNATION = "|"
_QUOTE_OR_BACKSLASH = ('"', "\\")
_SPELLED_BY_CODE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]+)\})")


def pattern_problem(pattern: str, *, in_json: bool) -> str | None:
    """Why the pattern cannot be kept to; None when it can.

    `in_json`: it is about the content of a JSON string, where quotes and backslashes would have to be escaped.
    """
    position, class_start = 0, None
    while position < len(pattern):
        piece, literal = _next_piece(pattern, position)
        if class_start is not None:
            is_negated = pattern.startswith("^", class_start)
            if piece == "]" and position > class_start + is_negated:
                class_start = None
            elif in_json and literal in _QUOTE_OR_BACKSLASH and not is_negated:
                return f"{literal} would have to be escaped in JSON, which a pattern cannot say"
        elif piece == "[":
            class_start = position + 1
        elif pattern.startswith("(?", position) and not _is_plain_group(pattern, position):
            return f"{pattern[position : position + 4]} is not supported"
        elif piece == "^" and not (position == 0 or pattern[position - 1] == _ALTERNATION):
            return "^ is supported at the beginning only"
        elif piece == "$" and pattern[position + 1 : position + 2] not in ("", _ALTERNATION):
            return "$ is supported at the end only"
        elif in_json and literal in _QUOTE_OR_BACKSLASH:
            return f"{literal} would have to be escaped in JSON, which a pattern cannot say"
        position += len(piece)
    return None


def _next_piece(pattern: str, position: int) -> tuple[str, str | None]:
    """One character, or one escape with what follows it; and the character that it stands for, if it is just that."""
    character = pattern[position]
    if character != "\\":
        return character, character
    code = _SPELLED_BY_CODE.match(pattern, position)
    if code is not None:
        number = int(next(group for group in code.groups() if group is not None), 16)
        return code[0], chr(number) if number <= 0x10FFFF else None
    escape = pattern[position : position + 2]
    escaped = escape[1:]
    return escape, None if escaped.isalnum() else escaped


def _is_plain_group(pattern: str, position: int) -> bool:
    rest = pattern[position + 2 :]
    if rest.startswith(("<=", "<!")):
        return False
    return rest.startswith((":", "<", "P<"))
