r"""`pattern_problem`: what a regular expression asks for and the back end would read otherwise, without a word.

Patterns match whole texts here, so anchors at their ends change nothing. Other anchors, lookaround and flags would be
ignored. What the back end refuses by itself (backreferences, `\b`, `\p{…}`) is left to it.
"""

import re

_ALTERNATION = "|"
_QUOTE_OR_BACKSLASH = ('"', "\\")
_NOT_IN_JSON = "would have to be escaped in JSON, which a pattern cannot say"
# Of `\\c` with the letter behind it, any will do.
_CONTROL_ESCAPES = dict(zip("tnrfv0aec", "\t\n\r\f\v\0\a\x1b\x01", strict=True))
_SPELLED_BY_CODE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]+)\})")


def pattern_problem(pattern: str, *, in_json: bool) -> str | None:
    """Why the pattern cannot be kept to; None when it can.

    `in_json`: it is about the content of a JSON string, where quotes and backslashes would have to be escaped.
    """
    position, class_start, fits_json = 0, None, False
    while position < len(pattern):
        piece, literal = _next_piece(pattern, position)
        if class_start is not None:
            is_negated = pattern.startswith("^", class_start)
            if piece == "]":
                if position == class_start + is_negated:
                    # To some dialects it ends the class, to others it is part of it.
                    return f"{pattern[class_start - 1 : position + 1]} is not supported: escape the ]"
                if in_json and not (is_negated or fits_json):
                    return f"{pattern[class_start - 1 : position + 1]} {_NOT_IN_JSON}"
                class_start = None
            elif in_json and literal in _QUOTE_OR_BACKSLASH and not is_negated:
                return f"{literal} {_NOT_IN_JSON}"
            fits_json |= piece not in ("-", r"\b") and not _is_control(literal)
        elif piece == "[":
            class_start, fits_json = position + 1, False
        elif pattern.startswith("(?", position) and not _is_plain_group(pattern, position):
            return f"{pattern[position : position + 4]} is not supported"
        elif piece == "^" and not (position == 0 or pattern[position - 1] == _ALTERNATION):
            return "^ is supported at the beginning only"
        elif piece == "$" and pattern[position + 1 : position + 2] not in ("", _ALTERNATION):
            return "$ is supported at the end only"
        elif in_json and (literal in _QUOTE_OR_BACKSLASH or _is_control(literal)):
            return f"{piece} {_NOT_IN_JSON}"
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
    if escaped in _CONTROL_ESCAPES:
        return escape, _CONTROL_ESCAPES[escaped]
    return escape, None if escaped.isalnum() else escaped


def _is_control(literal: str | None) -> bool:
    return literal is not None and "" < literal < " "


def _is_plain_group(pattern: str, position: int) -> bool:
    rest = pattern[position + 2 :]
    if rest.startswith(("<=", "<!")):
        return False
    return rest.startswith((":", "<", "P<"))
