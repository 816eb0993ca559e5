"""A page for people, whole in itself: one HTML file with one script and one style, and a policy that allows no more.

The policy lets through exactly this script and this style, by their hashes, and requests to this server; nothing is
loaded from or sent elsewhere, nobody may frame it, and markup cannot be made out of text, whatever a model writes.
"""

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path

from starlette.responses import HTMLResponse


class StaticPage:
    """Read once, when the server starts."""

    def __init__(self, path: Path) -> None:
        self._text = path.read_text(encoding="utf-8")
        policy = (
            f"default-src 'none'; script-src {_hash_of(self._text, 'script')}; "
            f"style-src {_hash_of(self._text, 'style')}; img-src data:; connect-src 'self'; "
            "require-trusted-types-for 'script'; trusted-types 'none'; "
            "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        )
        self._headers = {
            "content-security-policy": policy,
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            # Asked for anew each time: another version's page would not know this server.
            "cache-control": "no-cache",
        }

    def response(self, extra_headers: Mapping[str, str] = {}) -> HTMLResponse:
        """The page, with its policy."""
        return HTMLResponse(self._text, headers={**self._headers, **extra_headers})


def _hash_of(page: str, tag: str) -> str:
    """What lets the one inline element of this kind through."""
    content = page.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
