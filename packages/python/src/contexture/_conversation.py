"""Makes the messages of a framework fit, and gives the framework's own objects back.

An adapter encodes each message of its framework as one message of OpenAI's Chat API. The server
fits those, and this module finds out what happened to each: a message that was kept is returned as
the framework's own object, a shortened tool result as a copy with the new text, and a summary as a
new message. Details that the encoding leaves out, such as ids or signed reasoning, are therefore
never lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from . import models
from ._transport import UNSET, Unset
from .client import AsyncClient, Client

Message = TypeVar("Message")
ChatMessage = dict[str, Any]

NO_RESULT = "(no result: the call was interrupted)"


@dataclass
class Encoded(Generic[Message]):
    """A message of a framework, and the same as a message of OpenAI's Chat API."""

    chat: ChatMessage
    message: Message | None


@dataclass
class Fitted(Generic[Message]):
    """Messages that fit. `report` is None if the server was not asked for one."""

    messages: list[Message]
    changed: bool
    report: models.Report | None


@dataclass
class Adapter(Generic[Message]):
    """What a framework's messages are made of.

    `new` makes a message from one of the Chat API, and `shortened` a copy of a tool result with
    another text.
    """

    new: Callable[[ChatMessage], Message]
    shortened: Callable[[Message, str], Message]


@dataclass
class Options:
    """The settings of a fit, which all adapters have."""

    max_tokens: int | Unset = UNSET
    model: str | Unset = UNSET
    reserve_response: int | Unset = UNSET
    session: str | Unset = UNSET
    report: bool = True
    tools: list[dict[str, Any]] = field(default_factory=list)
    system: str | None = None


def fit(
    client: Client,
    conversation: Sequence[Encoded[Message]],
    adapter: Adapter[Message],
    options: Options,
) -> Fitted[Message]:
    """Fits a conversation."""
    conversation = paired(conversation)
    answer = client.fit(**_call(conversation, options))
    return _restored(conversation, adapter, options, answer)


async def afit(
    client: AsyncClient,
    conversation: Sequence[Encoded[Message]],
    adapter: Adapter[Message],
    options: Options,
) -> Fitted[Message]:
    """Fits a conversation."""
    conversation = paired(conversation)
    answer = await client.fit(**_call(conversation, options))
    return _restored(conversation, adapter, options, answer)


def paired(conversation: Sequence[Encoded[Message]]) -> list[Encoded[Message]]:
    """Returns a conversation in which every tool call has one result, right after it.

    A call without a result, such as one that was interrupted, gets a result that says so. A
    result without a call is left out, and so is a second result of the same call.
    """
    result: list[Encoded[Message]] = []
    waiting: dict[str, None] = {}

    def close() -> None:
        for call in waiting:
            chat = {"role": "tool", "tool_call_id": call, "content": NO_RESULT}
            result.append(Encoded(chat, None))
        waiting.clear()

    for part in conversation:
        if part.chat["role"] == "tool":
            call = part.chat["tool_call_id"]
            if call in waiting:
                del waiting[call]
                result.append(part)
            continue
        close()
        result.append(part)
        waiting = {call["id"]: None for call in part.chat.get("tool_calls") or ()}
    close()
    return result


def _call(conversation: Iterable[Encoded[Message]], options: Options) -> dict[str, Any]:
    messages = [part.chat for part in conversation]
    if options.system:
        messages.insert(0, {"role": "system", "content": options.system})
    # The name of the model only says how to count: it may be one that nobody knows.
    request: dict[str, Any] = {"model": options.model or "gpt-5", "messages": messages}
    if options.tools:
        request["tools"] = options.tools
    return {
        "request": request,
        "from_": "openai-chat",
        "max_tokens": options.max_tokens,
        "reserve_response": options.reserve_response,
        "session": options.session,
        "report": options.report,
    }


def _restored(
    conversation: list[Encoded[Message]],
    adapter: Adapter[Message],
    options: Options,
    answer: models.FitResponse,
) -> Fitted[Message]:
    added = any(part.message is None for part in conversation)
    if not answer.changed and not added:
        messages = [part.message for part in conversation if part.message is not None]
        return Fitted(messages, False, answer.report)
    fitted: list[ChatMessage] = list(answer.request["messages"])
    if options.system and fitted and fitted[0]["role"] in ("system", "developer"):
        fitted = fitted[1:]
    messages = []
    start = 0
    for chat in fitted:
        at = _position(chat, conversation, start)
        if at is None:
            messages.append(adapter.new(chat))
            continue
        if chat["role"] == "tool":
            parts = [conversation[at]]
        else:
            rest, parts = _with_neighbours(chat, conversation, start, at)
            if rest:
                # A summary that was joined with the first message.
                messages.append(adapter.new({"role": chat["role"], "content": rest}))
        start = at + 1
        for part in parts:
            if part.message is None:
                messages.append(adapter.new(chat))
            elif chat["role"] == "tool" and _text(chat).strip() != _text(part.chat).strip():
                messages.append(adapter.shortened(part.message, _text(chat)))
            else:
                messages.append(part.message)
    return Fitted(messages, True, answer.report)


def _position(chat: ChatMessage, conversation: list[Encoded[Message]], start: int) -> int | None:
    """Returns the index of the message that a fitted message is, or that it ends with."""
    wanted = _key(chat)
    for at in range(start, len(conversation)):
        if _key(conversation[at].chat) == wanted:
            return at
    if chat["role"] == "tool" or chat.get("tool_calls"):
        return None
    for at in range(start, len(conversation)):
        known = conversation[at].chat
        joins = known["role"] == chat["role"] and not known.get("tool_calls")
        if joins and _before(_text(chat), _text(known)) is not None:
            return at
    return None


def _with_neighbours(
    chat: ChatMessage, conversation: list[Encoded[Message]], start: int, at: int
) -> tuple[str, list[Encoded[Message]]]:
    """Returns the message at an index and those before it that were joined with it.

    The text is what the fitted message has before all of them: a summary, or nothing.
    """
    first = at
    rest = _before(_text(chat), _text(conversation[at].chat)) or ""
    while rest and first > start:
        known = conversation[first - 1].chat
        if known["role"] != chat["role"] or known.get("tool_calls"):
            break
        left = _before(rest, _text(known))
        if left is None:
            break
        rest = left
        first -= 1
    return rest, conversation[first : at + 1]


def _before(text: str, end: str) -> str | None:
    """Returns what a text has before its end, if `end` is its last paragraph."""
    text, end = text.strip(), end.strip()
    if text == end:
        return ""
    if not end:
        return text
    return text[: -len(end)].strip() if text.endswith(f"\n\n{end}") else None


def _key(chat: ChatMessage) -> str:
    """Returns what a message is recognised by: calls and results by their ids."""
    if chat["role"] == "tool":
        return f"tool {chat['tool_call_id']}"
    calls = chat.get("tool_calls")
    if calls:
        return "calls " + " ".join(call["id"] for call in calls)
    content = chat.get("content")
    text = content.strip() if isinstance(content, str) else json.dumps(content, sort_keys=True)
    return f"{chat['role']} {text}"


def _text(chat: ChatMessage) -> str:
    content = chat.get("content")
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or ())


def call_of(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    """Returns a tool call of the Chat API."""
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False, default=str)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
