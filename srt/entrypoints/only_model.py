"""`OnlyModel`: with `--strict-model-name`, a body that names another model than the served one is refused.

Here and not in each endpoint, so that none forgets it: the layer notes the name, and whoever reads a body checks it.
"""

from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from srt.errors import ModelNotFound

_KEY = "only_model"


class OnlyModel:
    """Notes the one name that bodies may say."""

    def __init__(self, app: ASGIApp, served_model_name: str) -> None:
        self._app = app
        self._name = served_model_name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with the note."""
        scope["state"][_KEY] = self._name
        await self._app(scope, receive, send)


def check_model(scope: Scope, body: Any) -> None:
    """Raise ModelNotFound if a parsed body names a model that is not served. One that names none is fine."""
    served = scope.get("state", {}).get(_KEY)
    asked = getattr(body, "model", None)
    if served is not None and asked not in (None, served):
        raise ModelNotFound(
            f"the model {str(asked)[:100]!r} is not served here; {served!r} is", param="model"
        )
