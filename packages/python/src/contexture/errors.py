"""The exceptions of this package. All are subclasses of :class:`ContextureError`."""

from __future__ import annotations

from typing import Any


class ContextureError(Exception):
    """The base class of all exceptions of this package."""


class ApiError(ContextureError):
    """The server rejected a call. `code` is stable; `message` is for people."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        field: str | None = None,
        hint: str | None = None,
        advice: list[dict[str, Any]] | None = None,
        request_id: str | None = None,
        note: str | None = None,
    ) -> None:
        text = f"{field}: {message}" if field else message
        if hint:
            text += f" (hint: {hint})"
        if note:
            text += f" [{note}]"
        super().__init__(f"{status} {code}: {text}")
        self.status = status
        self.code = code
        self.message = message
        self.field = field
        self.hint = hint
        self.advice = advice or []
        self.request_id = request_id


class ServerUnavailableError(ContextureError):
    """The server cannot be reached, or it ended during a call."""


class ServerStartError(ContextureError):
    """The local server did not start. The message contains what it printed."""


class BinaryNotFoundError(ContextureError):
    """The `contexture` command is not installed, or not available for this platform."""


class InvalidAnswerError(ContextureError):
    """The answer of the server does not match the API that this package was made for."""


class VersionWarning(UserWarning):
    """The server has another version than this package."""


class SessionWarning(UserWarning):
    """A conversation does not continue its session, or an answer could not be recorded."""


class FrameworkVersionError(ContextureError, ImportError):
    """A framework that an adapter needs is missing or too old."""
