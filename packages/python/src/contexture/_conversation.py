"""Makes the messages of a framework fit, and gives the framework's own objects back.

An adapter encodes each message of its framework as one message of OpenAI's Chat API. The server
fits those, and this module finds out what happened to each: a message that was kept is returned as
the framework's own object, a message whose text or arguments changed as a copy with the new ones,
and a summary as a new message. Details that the encoding leaves out, such as ids or signed
reasoning, are therefore never lost.

Fitted messages are aligned from the end, because the server replaces the beginning. Calls and
results are recognised by ids that are unique in the request, and texts by their order and content.
"""

from __future__ import annotations

import json
import re
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from . import models
from ._transport import UNSET, Unset
from .client import AsyncClient, Client
from .errors import ApiError, SessionWarning

Message = TypeVar("Message")
ChatMessage = dict[str, Any]

NO_RESULT = "(no result: the call was interrupted)"
SUMMARY = "[Previous conversation summary]"
# The marks that the server leaves where it masked a secret or cut a text.
_MARK = re.compile(r"\[secret masked: [^\]\n]*\]|\n?\[\.\.\. [^\n]*? \.\.\.\]\n?")
_ATTACHED = "[attached "
# The most sessions that are tried for a conversation that does not continue its session.
_MAX_SESSIONS = 9


@dataclass
class Encoded(Generic[Message]):
    """A message of a framework, and the same as a message of OpenAI's Chat API."""

    chat: ChatMessage
    message: Message | None


@dataclass
class Fitted(Generic[Message]):
    """Messages that fit. `report` is None if the server was not asked for one.

    `origins` has, for each message, the messages that were given for it: itself, the whole
    messages of a cut one, or all that a summary replaces.
    """

    messages: list[Message]
    changed: bool
    report: models.Report | None
    origins: list[list[Message]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    session: str | Unset = UNSET
    ids: Counter[str] = field(default_factory=Counter)

    def recorded(self, chat: ChatMessage) -> ChatMessage:
        """Returns an answer to the messages with the ids that the next fit has for it."""
        return _renamed(chat, Counter(self.ids), {})


@dataclass
class Adapter(Generic[Message]):
    """What a framework's messages are made of.

    `new` makes a message from one of the Chat API, and `changed` a copy of a message with the
    text and the arguments of a message of the Chat API.
    """

    new: Callable[[ChatMessage], Message]
    changed: Callable[[Message, ChatMessage], Message]


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
    # The sessions that took the place of others, as long as the adapter exists.
    moved: dict[str, str] = field(default_factory=dict)


def fit(
    client: Client,
    conversation: Sequence[Encoded[Message]],
    adapter: Adapter[Message],
    options: Options,
) -> Fitted[Message]:
    """Fits a conversation."""
    prepared = _Prepared(conversation, adapter, options)
    while True:
        try:
            return prepared.restored(client.fit(**prepared.call()))
        except ApiError as error:
            if not prepared.continues_after(error):
                raise


async def afit(
    client: AsyncClient,
    conversation: Sequence[Encoded[Message]],
    adapter: Adapter[Message],
    options: Options,
) -> Fitted[Message]:
    """Fits a conversation."""
    prepared = _Prepared(conversation, adapter, options)
    while True:
        try:
            return prepared.restored(await client.fit(**prepared.call()))
        except ApiError as error:
            if not prepared.continues_after(error):
                raise


class _Prepared(Generic[Message]):
    """A conversation that is sent, perhaps more than once."""

    def __init__(
        self,
        conversation: Sequence[Encoded[Message]],
        adapter: Adapter[Message],
        options: Options,
    ) -> None:
        self.adapter = adapter
        self.options = options
        # A summary of unknown messages stays in front: summarised again, it would look like the
        # user's words. It is counted with the system prompt.
        start = 0
        while start < len(conversation) - 1 and is_summary(conversation[start].chat):
            start += 1
        self.front = [part.message for part in conversation[:start] if part.message is not None]
        system = [options.system] if options.system else []
        system += [text_of(part.chat) for part in conversation[:start]]
        self.system = "\n\n".join(system)
        given = conversation[start:]
        found = paired(given)
        self.is_paired = [id(part) for part in given] == [id(part) for part in found]
        self.ids: Counter[str] = Counter()
        self.names: dict[str, str] = {}
        self.sent = [
            replace(part, chat=_renamed(part.chat, self.ids, self.names)) for part in found
        ]
        self.tools = {
            call["id"]: call["function"]["name"]
            for part in self.sent
            for call in part.chat.get("tool_calls") or ()
        }
        self.session = SessionChoice(options.session, options.moved)
        self.has_images = True

    def call(self) -> dict[str, Any]:
        """Returns the arguments of the call."""
        options = self.options
        messages = [part.chat for part in self.sent]
        if self.system:
            messages.insert(0, {"role": "system", "content": self.system})
        # The name of the model only says how to count: it may be one that nobody knows.
        request: dict[str, Any] = {"model": options.model or "gpt-5", "messages": messages}
        if options.tools:
            request["tools"] = options.tools
        return {
            "request": request,
            "from_": "openai-chat",
            "max_tokens": options.max_tokens,
            "reserve_response": options.reserve_response,
            "session": self.session.label,
            "report": options.report,
        }

    def continues_after(self, error: ApiError) -> bool:
        """Changes what is sent, so that the call can succeed. Returns false if nothing can."""
        if error.code == "over_budget":
            if not self.has_images:
                return False
            # If the size of an image cannot be read, the most is counted for it.
            self.has_images = False
            before = self.sent
            self.sent = [replace(part, chat=_without_images(part.chat)) for part in before]
            return any(old.chat != new.chat for old, new in zip(before, self.sent, strict=True))
        return self.session.continues_after(error)

    def restored(self, answer: models.FitResponse) -> Fitted[Message]:
        """Returns the framework's messages that were fitted."""
        front = self.front
        result: Fitted[Message] = Fitted(
            list(front), False, answer.report, [[message] for message in front]
        )
        result.warnings = self.session.warnings()
        result.session, result.ids = self.session.label, self.ids
        if not answer.changed and self.is_paired:
            kept = [part.message for part in self.sent if part.message is not None]
            result.messages += kept
            result.origins += [[message] for message in kept]
            return result
        result.changed = True
        fitted: list[ChatMessage] = list(answer.request["messages"])
        if self.system and fitted and fitted[0]["role"] in ("system", "developer"):
            fitted = fitted[1:]
        done = 0
        summary: list[Message] | None = None
        for chat, at in aligned(fitted, [part.chat for part in self.sent]):
            if at is None:
                summary = []
                result.messages.append(self.adapter.new(self._named(chat)))
                result.origins.append(summary)
                continue
            # Messages that are gone are in the summary before this one.
            skipped = self._messages(done, at)
            done = at + 1
            message = self.sent[at].message
            origin = [] if message is None else [message]
            if summary is None:
                origin = [*skipped, *origin]
            else:
                summary += skipped
            summary = None
            if message is None:
                message = self.adapter.new(self._named(chat))
            elif not is_same(chat, self.sent[at].chat):
                message = self.adapter.changed(message, self._named(chat))
            result.messages.append(message)
            result.origins.append(origin)
        if result.origins:
            result.origins[-1] += self._messages(done, len(self.sent))
        return result

    def _messages(self, start: int, end: int) -> list[Message]:
        return [part.message for part in self.sent[start:end] if part.message is not None]

    def _named(self, chat: ChatMessage) -> ChatMessage:
        """Returns a message with the framework's ids, and a result with the name of its tool."""
        if chat["role"] == "tool":
            call_id = chat["tool_call_id"]
            named = {**chat, "tool_call_id": self.names.get(call_id, call_id)}
            return {**named, "name": self.tools.get(call_id, "unknown")}
        if chat.get("tool_calls"):
            calls = [
                {**call, "id": self.names.get(call["id"], call["id"])}
                for call in chat["tool_calls"]
            ]
            return {**chat, "tool_calls": calls}
        return chat


class SessionChoice:
    """The session of a call. A conversation that does not continue its session gets another.

    A conversation whose earlier messages were edited or removed is rejected by its session. The
    model must still get an answer, and the rest of the conversation must be recorded: in the
    session `label~2`, and so on. `moved` remembers that for later calls.
    """

    def __init__(self, named: str | Unset, moved: dict[str, str]) -> None:
        self.label = moved.get(named, named) if isinstance(named, str) else named
        self._named = named
        self._moved = moved
        self._number = 1 if self.label == named else int(str(self.label).rpartition("~")[2])
        self._error: ApiError | None = None

    def continues_after(self, error: ApiError) -> bool:
        """Chooses another session. Returns false if the error has another cause."""
        is_rejected = error.status in (409, 422) and error.code != "over_budget"
        if not isinstance(self.label, str) or not is_rejected:
            return False
        self._error = error
        self._number += 1
        if error.status == 409 and self._number <= _MAX_SESSIONS:
            self.label = f"{self._named}~{self._number}"
        else:
            self.label = UNSET
        return True

    def warnings(self) -> list[str]:
        """Warns if the conversation is in another session. Returns the warnings."""
        if self._error is None:
            return []
        recorded = "not recorded"
        if isinstance(self.label, str):
            self._moved[str(self._named)] = self.label
            recorded = f"recorded in session {self.label!r}"
        warning = (
            f"the conversation does not continue session {self._named!r} and is {recorded} "
            f"[{self._error.message}]. Use another session for a conversation whose earlier "
            "messages were edited or removed."
        )
        warnings.warn(warning, SessionWarning, stacklevel=5)
        return [warning]


class Originals(Generic[Message]):
    """Remembers which messages fitted ones stand for, as long as the fitted ones exist.

    Some frameworks give fitted messages back for the next call. Fitting the messages that were
    replaced again keeps summaries from containing summaries.
    """

    def __init__(self, key: Callable[[Message], object]) -> None:
        self._key = key
        self._known: dict[int, tuple[weakref.ref[object], list[Message]]] = {}

    def remember(self, fitted: Fitted[Message]) -> None:
        """Remembers what fitted messages stand for."""
        for message, origin in zip(fitted.messages, fitted.origins, strict=True):
            key = self._key(message)
            if len(origin) == 1 and self._key(origin[0]) is key:
                continue
            number = id(key)

            def forget(_: object, number: int = number) -> None:
                self._known.pop(number, None)

            self._known[number] = (weakref.ref(key, forget), origin)

    def of(self, messages: Sequence[Message]) -> list[Message]:
        """Returns messages, with those that were fitted replaced by the ones they stand for."""
        result: list[Message] = []
        for message in messages:
            key = self._key(message)
            known = self._known.get(id(key))
            if known is not None and known[0]() is key:
                result += known[1]
            else:
                result.append(message)
        return result


def is_summary(chat: ChatMessage) -> bool:
    """Returns true for a message that is a summary of earlier messages."""
    return chat["role"] == "user" and text_of(chat).startswith(SUMMARY)


def paired(conversation: Sequence[Encoded[Message]]) -> list[Encoded[Message]]:
    """Returns a conversation in which every tool call has one result, right after it.

    A result that comes later is moved to its call. A call without a result, such as one that was
    interrupted, gets a result that says so. A result without a call is left out, and so is a
    second result of the same call.
    """
    results: dict[int, list[Encoded[Message]]] = {}
    # Ids can be repeated: a result belongs to the latest call with its id that has none.
    waiting: dict[str, list[int]] = {}
    for at, part in enumerate(conversation):
        if part.chat["role"] == "tool":
            calls = waiting.get(part.chat["tool_call_id"])
            if calls:
                results.setdefault(calls.pop(), []).append(part)
        for call in part.chat.get("tool_calls") or ():
            waiting.setdefault(call["id"], []).append(at)
    result: list[Encoded[Message]] = []
    for at, part in enumerate(conversation):
        if part.chat["role"] == "tool":
            continue
        found = results.get(at, [])
        result += [part, *found]
        missing = Counter(call["id"] for call in part.chat.get("tool_calls") or ())
        missing.subtract(answer.chat["tool_call_id"] for answer in found)
        for call_id in missing.elements():
            chat = {"role": "tool", "tool_call_id": call_id, "content": NO_RESULT}
            result.append(Encoded(chat, None))
    return result


def _renamed(chat: ChatMessage, ids: Counter[str], names: dict[str, str]) -> ChatMessage:
    """Returns a message with ids that are unique in its conversation.

    Several providers count their calls from zero in each answer. The second call with an id gets
    `~2`, and so on: the same names in each request of a growing conversation. `ids` counts the
    calls, `names` gets the ids that were replaced.
    """

    def unique(call_id: str, number: int) -> str:
        name = call_id if number == 1 else f"{call_id}~{number}"
        names[name] = call_id
        return name

    if chat["role"] == "tool":
        # Results follow their calls. Calls of one message with the same id keep their order.
        call_id = chat["tool_call_id"]
        waiting = f"{call_id}\0waiting"
        number = ids[call_id] - max(0, ids[waiting] - 1)
        ids[waiting] -= 1
        return {**chat, "tool_call_id": unique(call_id, number)}
    if chat.get("tool_calls"):
        calls = []
        for call in chat["tool_calls"]:
            ids[call["id"]] += 1
            ids[f"{call['id']}\0waiting"] += 1
            calls.append({**call, "id": unique(call["id"], ids[call["id"]])})
        return {**chat, "tool_calls": calls}
    return chat


def aligned(
    fitted: Sequence[ChatMessage], known: Sequence[ChatMessage]
) -> list[tuple[ChatMessage, int | None]]:
    """Returns fitted messages with the index of the message that each was made from.

    A summary that was joined with a message is separated from it. New messages have no index.
    """
    anchors = {_anchor(chat): at for at, chat in enumerate(known) if _anchor(chat)}
    # A text comes after the calls and results that are before it.
    lowest, low = [], 0
    for chat in fitted:
        lowest.append(low)
        anchor = _anchor(chat)
        if anchor in anchors:
            low = anchors[anchor] + 1
    result: list[tuple[ChatMessage, int | None]] = []
    end = len(known)
    for chat, low in zip(reversed(fitted), reversed(lowest), strict=True):
        anchor = _anchor(chat)
        if anchor:
            at = anchors.get(anchor)
            found: list[tuple[ChatMessage, int | None]] = [(chat, at)]
            if at is not None and chat["role"] != "tool":
                found = _separated(chat, known, low, at) or found
        else:
            found = _found(chat, known, low, end)
        result += reversed(found)
        end = min([end, *(at for _, at in found if at is not None)])
    result.reverse()
    return result


def _anchor(chat: ChatMessage) -> str:
    """Returns what a call or a result is recognised by."""
    if chat["role"] == "tool":
        return f"result {chat['tool_call_id']}"
    return f"call {chat['tool_calls'][0]['id']}" if chat.get("tool_calls") else ""


def _found(
    chat: ChatMessage, known: Sequence[ChatMessage], low: int, end: int
) -> list[tuple[ChatMessage, int | None]]:
    """Returns the parts of a fitted text, each with the index of the message that it is."""
    candidates = [at for at in range(end - 1, low - 1, -1) if _is_like(chat, known[at])]
    # The messages that are kept follow each other, so that the nearest is the most likely.
    for at in [*candidates[:1], *(at for at in candidates if is_same(chat, known[at]))]:
        if found := _separated(chat, known, low, at):
            return found
    for at in candidates:
        if found := _separated(chat, known, low, at):
            return found
    return [(chat, None)]


def _separated(
    chat: ChatMessage, known: Sequence[ChatMessage], low: int, at: int
) -> list[tuple[ChatMessage, int | None]]:
    """Returns a fitted text that ends with a message, and what comes before it.

    The result is empty if the text does not end with the message.
    """
    if is_same(chat, known[at]):
        return [(chat, at)]
    result: list[tuple[ChatMessage, int | None]] = []
    rest = _parts(chat)
    if _anchor(known[at]) and not _parts(known[at]):
        # A call without a text, which was joined with the text before it.
        result.append(({**chat, "content": None}, at))
        at -= 1
    while rest and at >= low and (not result or _is_like(chat, known[at])):
        split = _split(rest, _parts(known[at]))
        if split is None:
            break
        rest, end = split
        piece = {**chat, "content": _content(end, known[at])}
        if result:
            piece.pop("tool_calls", None)
        result.insert(0, (piece, at))
        at -= 1
    if result and rest:
        result.insert(0, ({"role": chat["role"], "content": _content(rest, {})}, None))
    return result


def _split(
    have: list[dict[str, Any]], want: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]] | None:
    """Separates parts that end with those of a message. Returns None if they do not."""
    if not want:
        return None
    have = list(have)
    end: list[dict[str, Any]] = []
    for number, part in enumerate(reversed(want), 1):
        if not have:
            return None
        last = have.pop()
        if _is_text(part) and _is_text(last):
            if not _is_text_of(last["text"], part["text"]):
                ends = _paragraphs(last["text"], part["text"]) if number == len(want) else None
                if ends is None:
                    return None
                have.append({**last, "text": ends[0]})
                last = {**last, "text": ends[1]}
        elif last != part:
            return None
        end.insert(0, last)
    return have, end


def _paragraphs(text: str, end: str) -> tuple[str, str] | None:
    """Separates a text from its last paragraphs, if those are `end`."""
    text, count = text.strip(), end.strip().count("\n\n") + 1
    paragraphs = text.split("\n\n")
    if len(paragraphs) <= count:
        return None
    last = "\n\n".join(paragraphs[-count:])
    return (text[: -len(last)].strip(), last) if _is_text_of(last, end) else None


def _is_text_of(shown: str, given: str) -> bool:
    """Returns true if a text is another one, perhaps with secrets masked or parts cut."""
    shown, given = shown.strip(), given.strip()
    if shown == given:
        return True
    pieces = _MARK.split(shown)
    if len(pieces) == 1 or not given.startswith(pieces[0]) or not given.endswith(pieces[-1]):
        return False
    start, end = len(pieces[0]), len(given) - len(pieces[-1])
    for piece in pieces[1:-1]:
        start = given.find(piece, start, end)
        if start < 0:
            return False
        start += len(piece)
    return start <= end


def is_same(chat: ChatMessage, known: ChatMessage) -> bool:
    """Returns true if two messages have the same content and the same calls."""

    def plain(found: ChatMessage) -> list[Any]:
        texts = [part["text"].strip() if _is_text(part) else part for part in _parts(found)]
        return [text for text in texts if text]

    def calls(found: ChatMessage) -> list[Any]:
        return [
            [call["function"]["name"], _arguments(call["function"]["arguments"])]
            for call in found.get("tool_calls") or ()
        ]

    return plain(chat) == plain(known) and calls(chat) == calls(known)


def _arguments(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def arguments_of(call: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a call of the Chat API."""
    found = _arguments(call["function"]["arguments"])
    return found if isinstance(found, dict) else {"arguments": found}


def _is_like(chat: ChatMessage, known: ChatMessage) -> bool:
    def role(found: ChatMessage) -> str:
        return "system" if found["role"] == "developer" else str(found["role"])

    return role(chat) == role(known) and not _anchor(known)


def _is_text(part: dict[str, Any]) -> bool:
    return part.get("type") == "text"


def _parts(chat: ChatMessage) -> list[dict[str, Any]]:
    """Returns the content of a message as parts. Empty texts are left out."""
    content = chat.get("content") or ""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return [part for part in content if not _is_text(part) or part["text"].strip()]


def _content(parts: list[dict[str, Any]], known: ChatMessage) -> Any:
    """Returns parts as the content of a message, in the form of another message."""
    if isinstance(known.get("content", ""), str) and all(map(_is_text, parts)):
        return "\n\n".join(part["text"] for part in parts)
    return parts


def text_of(chat: ChatMessage) -> str:
    """Returns the text of a message. Its parts are paragraphs."""
    return "\n\n".join(part["text"] for part in _parts(chat) if _is_text(part))


def texts_of(chat: ChatMessage) -> list[str]:
    """Returns the texts of a message, one for each part. Attachments are left out."""
    texts = [part["text"] for part in _parts(chat) if _is_text(part)]
    return [text for text in texts if not text.startswith(_ATTACHED)]


def other_texts(given: Sequence[str], chat: ChatMessage) -> list[str]:
    """Returns the texts of a fitted message for those of a given one.

    If they cannot be told apart, the first has all of them, and the others are empty.
    """
    texts = texts_of(chat)
    if len(texts) == len(given):
        return texts
    return ["\n\n".join(texts), *[""] * (len(given) - 1)]


def _without_images(chat: ChatMessage) -> ChatMessage:
    """Returns a message in which a text takes the place of each image."""
    content = chat.get("content")
    if isinstance(content, str) or not content:
        return chat
    parts = [
        attachment_of("image") if part.get("type") == "image_url" else part for part in content
    ]
    return {**chat, "content": parts}


def call_of(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    """Returns a tool call of the Chat API."""
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False, default=str)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def image_of(url: str) -> dict[str, Any]:
    """Returns an image of the Chat API, at an address or in a data URL."""
    return {"type": "image_url", "image_url": {"url": url}}


def attachment_of(name: str) -> dict[str, Any]:
    """Returns a text that stands for what the Chat API has no part for."""
    return {"type": "text", "text": f"{_ATTACHED}{name}]"}
