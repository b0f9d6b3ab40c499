"""Makes requests for the plain clients of providers fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from ._default import default_async_client, default_client
from ._transport import UNSET, Unset
from .client import AsyncClient, Client

# Arguments of the providers' Python clients that are not part of the request.
_OF_THE_CLIENT = frozenset({"extra_body", "extra_headers", "extra_query", "stream", "timeout"})


def fit(
    request: Mapping[str, Any],
    *,
    max_tokens: int | Unset = UNSET,
    session: str | Unset = UNSET,
    model: str | Unset = UNSET,
    reserve_response: int | Unset = UNSET,
    client: Client | None = None,
) -> dict[str, Any]:
    """Returns a provider's request within its context window.

    `request` holds the arguments of `openai.chat.completions.create`, `openai.responses.create`,
    `anthropic.messages.create` or Gemini's `generateContent`. A request that fits is returned
    unchanged. Otherwise older steps are replaced by a summary and long tool results are cut; the
    result is valid for the same API.

    Args:
        request: The arguments of the call.
        max_tokens: The size of the window, response included. Default: the model's.
        session: The session that keeps the conversation, so that the provider's cache stays
            valid from call to call. Default: none; nothing is stored.
        model: The model whose window and tokenizer count. Default: the request's.
        reserve_response: The tokens to keep free for the response.
        client: The client to use. Default: the client of this process.
    """
    body = _body(request)
    answer = (client or default_client(session is UNSET)).fit(
        request=body,
        max_tokens=max_tokens,
        session=session,
        model=model,
        reserve_response=reserve_response,
        report=False,
    )
    return _result(request, body, answer.request if answer.changed else None)


async def afit(
    request: Mapping[str, Any],
    *,
    max_tokens: int | Unset = UNSET,
    session: str | Unset = UNSET,
    model: str | Unset = UNSET,
    reserve_response: int | Unset = UNSET,
    client: AsyncClient | None = None,
) -> dict[str, Any]:
    """Returns a provider's request within its context window, as :func:`fit` does."""
    body = _body(request)
    answer = await (client or default_async_client(session is UNSET)).fit(
        request=body,
        max_tokens=max_tokens,
        session=session,
        model=model,
        reserve_response=reserve_response,
        report=False,
    )
    return _result(request, body, answer.request if answer.changed else None)


def _body(request: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the part of the arguments that is the body of the request, as JSON data."""
    body = {}
    for name, value in request.items():
        is_config = name == "config" and "contents" in request
        if name not in _OF_THE_CLIENT and not is_config and not _is_omitted(value):
            body[name] = _plain(value, name)
    if "contents" in body:
        body["contents"] = _contents(body["contents"])
    config = request.get("config")
    if "contents" in body and config is not None:
        body |= _config(config)
    return body


def _config(config: Any) -> dict[str, Any]:
    """Returns what is counted of the `config` of Gemini's client: instructions and tools."""
    named = config if isinstance(config, Mapping) else vars(config)
    found: dict[str, Any] = {}
    instruction = named.get("system_instruction") or named.get("systemInstruction")
    if isinstance(instruction, str):
        found["systemInstruction"] = {"parts": [{"text": instruction}]}
    elif isinstance(instruction, (BaseModel, Mapping)):
        found["systemInstruction"] = _plain(instruction, "config.system_instruction")
    tools = [tool for tool in named.get("tools") or () if isinstance(tool, (BaseModel, Mapping))]
    if tools:
        found["tools"] = _plain(tools, "config.tools")
    return found


def _contents(contents: Any) -> Any:
    """Returns Gemini's contents as a list of objects. Its client accepts texts, too."""
    if isinstance(contents, (str, dict)):
        contents = [contents]
    if not isinstance(contents, list):
        return contents
    return [
        {"role": "user", "parts": [{"text": one}]} if isinstance(one, str) else one
        for one in contents
    ]


def _result(
    request: Mapping[str, Any], body: dict[str, Any], fitted: Mapping[str, Any] | None
) -> dict[str, Any]:
    if fitted is None:
        return dict(request)
    # Arguments that are not part of the body, or kept their value, stay as they were given.
    result = {name: value for name, value in request.items() if name not in body or name in fitted}
    for name, value in fitted.items():
        is_of_config = "config" in request and name not in request
        if body.get(name) != value and not is_of_config:
            result[name] = value
    return result


def _is_omitted(value: Any) -> bool:
    """Returns true for the values that the providers' clients use for "not given"."""
    return type(value).__name__ in ("NotGiven", "Omit", "Unset")


def _plain(value: Any, place: str) -> Any:
    """Returns a value as JSON data. Responses of the providers' clients become dictionaries."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, Mapping):
        return {
            str(name): _plain(item, f"{place}.{name}")
            for name, item in value.items()
            if not _is_omitted(item)
        }
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{place}[{at}]") for at, item in enumerate(value)]
    raise TypeError(
        f"{place} is a {type(value).__name__}, which cannot be sent as JSON: convert it to "
        "dictionaries, lists, strings and numbers"
    )
