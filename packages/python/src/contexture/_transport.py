"""Sends calls and reads answers, for both clients."""

from __future__ import annotations

import ipaddress
import json
import os
import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
from pydantic import TypeAdapter, ValidationError

from ._model import to_json
from ._version import VERSION
from .errors import ApiError, InvalidAnswerError, VersionWarning


class Unset:
    """The type of :data:`UNSET`."""

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


UNSET = Unset()
"""The value of an argument that is not sent. None is sent as null."""


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values that are set, as plain JSON data."""
    return {name: to_json(value) for name, value in values.items() if value is not UNSET}


def path_of(template: str, values: Mapping[str, str]) -> str:
    """Returns a path with its parameters filled in."""
    return template.format_map({name: quote(value, safe="") for name, value in values.items()})


def url_from_environment() -> str | None:
    """Returns the server that `CONTEXTURE_URL` names."""
    return os.environ.get("CONTEXTURE_URL") or None


def key_from_environment() -> str | None:
    """Returns the API key in `CONTEXTURE_API_KEY`."""
    return os.environ.get("CONTEXTURE_API_KEY") or None


def uses_proxies(url: str) -> bool:
    """Returns true if calls to `url` may go through the proxies that the environment names.

    Calls to this machine never do: a proxy could not reach it.
    """
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True


def headers(api_key: str | None) -> dict[str, str]:
    """Returns the headers of every call."""
    sent = {"user-agent": f"contexture-ai-python/{VERSION}"}
    if api_key:
        sent["authorization"] = f"Bearer {api_key}"
    return sent


class VersionCheck:
    """Compares the version of the server with that of this package, once."""

    def __init__(self) -> None:
        self._seen: str | None = None

    def look(self, response: httpx.Response) -> None:
        """Warns if the server has another version."""
        version = response.headers.get("contexture-version")
        if version is None or version == self._seen:
            return
        self._seen = version
        if self.note():
            warnings.warn(self.note() or "", VersionWarning, stacklevel=6)

    def note(self) -> str | None:
        """Returns a sentence about the difference, if there is one that matters."""
        if self._seen is None or _series(self._seen) == _series(VERSION):
            return None
        return (
            f"the server has version {self._seen} and contexture-ai has version {VERSION}: "
            "install the same version of both"
        )


def _series(version: str) -> tuple[str, ...]:
    """Returns the part of a version that says what is compatible: 0.2 of 0.2.7, 1 of 1.4.0."""
    parts = version.split(".")
    return tuple(parts[:2] if parts[0] == "0" else parts[:1])


@lru_cache(maxsize=256)
def _adapter(answer: Any) -> TypeAdapter[Any]:
    return TypeAdapter(answer)


def read(response: httpx.Response, answer: Any, versions: VersionCheck) -> Any:
    """Returns the answer of a call, or raises what the server reports."""
    versions.look(response)
    if response.is_error:
        raise api_error(response, versions)
    if answer is None:
        return None
    try:
        return _adapter(answer).validate_json(response.content)
    except ValidationError as error:
        note = versions.note() or "is this address a Contexture server?"
        raise InvalidAnswerError(f"the answer cannot be read: {error} [{note}]") from error


def api_error(response: httpx.Response, versions: VersionCheck) -> ApiError:
    """Returns the error in an answer."""
    try:
        body = json.loads(response.content)["error"]
        code, message = body["code"], body["message"]
    except (ValueError, KeyError, TypeError):
        text = response.text[:200]
        return ApiError(response.status_code, "unknown", text or response.reason_phrase)
    unknown = code in ("no_such_path", "no_such_method", "invalid_field")
    return ApiError(
        response.status_code,
        code,
        message,
        field=body.get("field"),
        hint=body.get("hint"),
        advice=body.get("advice"),
        request_id=response.headers.get("x-request-id"),
        note=versions.note() if unknown else None,
    )


def line_data(line: str) -> Any | None:
    """Returns the data of a line of NDJSON or of a stream of events, if it has any."""
    if line.startswith("data:"):
        return json.loads(line[5:])
    if line.startswith("{"):
        return json.loads(line)
    return None
