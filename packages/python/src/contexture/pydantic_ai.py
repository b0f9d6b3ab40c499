"""Pydantic AI: fit the history of each model request.

```python
from pydantic_ai import Agent
from pydantic_ai.capabilities import ProcessHistory
from contexture.pydantic_ai import fit_history

agent = Agent("openai:gpt-5.6", capabilities=[ProcessHistory(fit_history(max_tokens=100_000))])
```

Versions of Pydantic AI without capabilities take `history_processors=[fit_history(…)]`.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from ._require import require

require("pydantic-ai-slim", (1, 0), "pydantic-ai")

from pydantic_ai import RunContext  # noqa: E402
from pydantic_ai.messages import (  # noqa: E402
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from . import _conversation as conversation  # noqa: E402
from ._conversation import Encoded  # noqa: E402
from ._default import default_async_client  # noqa: E402
from ._transport import UNSET, Unset  # noqa: E402
from .client import AsyncClient  # noqa: E402

# A part of a request with the request that it belongs to, or a whole response.
_Unit = tuple[ModelRequestPart, ModelRequest] | ModelResponse


def fit_history(
    *,
    max_tokens: int | Unset = UNSET,
    session: str | Unset = UNSET,
    model: str | Unset = UNSET,
    reserve_response: int | Unset = UNSET,
    client: AsyncClient | None = None,
) -> Callable[..., Awaitable[list[ModelMessage]]]:
    """Returns a history processor that fits the messages into the context window.

    System prompts are kept as they are, and instructions and tools are counted. The arguments are
    those of :func:`contexture.fit`. The processor can also be called with a list of messages: set
    `model` or `max_tokens` then.

    Pydantic AI keeps what a processor returns. The processor remembers the whole messages as long
    as the process runs, and fits those: a summary is never made of a summary.
    """
    originals = conversation.Originals[_Unit](_key)
    moved: dict[str, str] = {}

    async def process(
        context: RunContext[Any], messages: list[ModelMessage] | None = None
    ) -> list[ModelMessage]:
        run: Any = context
        if messages is None:
            run, messages = None, cast("list[ModelMessage]", context)
        options = conversation.Options(
            max_tokens=max_tokens,
            model=model or _model_name(run) or UNSET,
            reserve_response=reserve_response,
            session=session,
            report=False,
            tools=_tools(run),
            system=_instructions(messages),
            moved=moved,
        )
        given = _units(messages)
        whole = originals.of(given)
        sent: list[Encoded[_Unit]] = [Encoded(_chat(unit), unit) for unit in whole]
        caller = client or default_async_client(session is UNSET)
        fitted = await conversation.afit(caller, sent, _ADAPTER, options)
        if not fitted.changed and len(whole) == len(given):
            return messages
        originals.remember(fitted)
        return joined(fitted.messages)

    return process


def _model_name(run: Any) -> str | None:
    name = getattr(getattr(run, "model", None), "model_name", None)
    return name.rsplit("/", 1)[-1] if isinstance(name, str) else None


def _tools(run: Any) -> list[dict[str, Any]]:
    """Returns the tools that are sent with the request, if this version tells."""
    defined = getattr(getattr(run, "tool_manager", None), "tool_defs", None) or ()
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description or "",
                "parameters": tool.parameters_json_schema,
            },
        }
        for tool in defined
    ]


def _instructions(messages: Sequence[ModelMessage]) -> str | None:
    """Returns the instructions that are sent: those of the latest request."""
    for message in reversed(messages):
        if isinstance(message, ModelRequest):
            return message.instructions
    return None


def _key(unit: _Unit) -> object:
    return unit if isinstance(unit, ModelResponse) else unit[0]


def _units(messages: Sequence[ModelMessage]) -> list[_Unit]:
    units: list[_Unit] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            units.append(message)
        else:
            units += [(part, message) for part in message.parts]
    return units


def _chat(unit: _Unit) -> dict[str, Any]:
    return _response(unit) if isinstance(unit, ModelResponse) else _part(unit[0])


def encoded(messages: Sequence[ModelMessage]) -> list[Encoded[_Unit]]:
    """Returns the parts of messages with their form in OpenAI's Chat API."""
    return [Encoded(_chat(unit), unit) for unit in _units(messages)]


def joined(units: Sequence[_Unit]) -> list[ModelMessage]:
    """Returns messages made of parts. Parts between two responses are one request."""
    messages: list[ModelMessage] = []
    for unit in units:
        if isinstance(unit, ModelResponse):
            messages.append(unit)
            continue
        part, request = unit
        last = messages[-1] if messages else None
        if isinstance(last, ModelRequest):
            # The instructions of the latest request are those that are sent.
            messages[-1] = dataclasses.replace(
                request,
                parts=[*last.parts, part],
                instructions=request.instructions or last.instructions,
            )
        else:
            messages.append(dataclasses.replace(request, parts=[part]))
    return messages


def _part(part: ModelRequestPart) -> dict[str, Any]:
    if isinstance(part, ToolReturnPart):
        return {
            "role": "tool",
            "tool_call_id": part.tool_call_id,
            "content": _returned(part),
        }
    if isinstance(part, RetryPromptPart) and part.tool_name is not None:
        return {
            "role": "tool",
            "tool_call_id": part.tool_call_id,
            "content": part.model_response(),
        }
    if isinstance(part, SystemPromptPart):
        return {"role": "system", "content": part.content}
    if isinstance(part, RetryPromptPart):
        return {"role": "user", "content": part.model_response()}
    content = getattr(part, "content", "")
    if isinstance(content, str):
        return {"role": "user", "content": content}
    return {"role": "user", "content": [_encoded_item(item) for item in content]}


def _returned(part: ToolReturnPart) -> Any:
    """Returns what a tool returned, with its images, so that they are counted."""
    content: Any = part.content
    items = content if isinstance(content, list) else [content]
    if not any(_is_media(item) for item in items):
        return part.model_response_str()
    return [
        _encoded_item(item)
        if _is_media(item)
        else {
            "type": "text",
            "text": dataclasses.replace(part, content=item).model_response_str(),
        }
        for item in items
    ]


def _is_media(item: Any) -> bool:
    return isinstance(item, BinaryContent) or hasattr(item, "url")


def _encoded_item(item: Any) -> dict[str, Any]:
    if isinstance(item, str):
        return {"type": "text", "text": item}
    if isinstance(item, ImageUrl):
        return conversation.image_of(item.url)
    if isinstance(item, BinaryContent):
        url = f"data:{item.media_type};base64,{base64.b64encode(item.data).decode()}"
        if item.is_image:
            return conversation.image_of(url)
        if item.media_type == "application/pdf":
            return {"type": "file", "file": {"filename": "file.pdf", "file_data": url}}
    if isinstance(getattr(item, "content", None), str):
        return {"type": "text", "text": item.content}
    return conversation.attachment_of(type(item).__name__)


def _response(message: ModelResponse) -> dict[str, Any]:
    texts = [part.content for part in message.parts if isinstance(part, TextPart)]
    calls = [
        conversation.call_of(part.tool_call_id, part.tool_name, part.args_as_json_str())
        for part in message.parts
        if isinstance(part, ToolCallPart)
    ]
    chat: dict[str, Any] = {"role": "assistant", "content": "\n\n".join(texts)}
    if calls:
        chat["tool_calls"] = calls
        chat["content"] = chat["content"] or None
    return chat


def _new(chat: dict[str, Any]) -> _Unit:
    content = conversation.text_of(chat)
    match chat["role"]:
        case "assistant":
            parts: list[Any] = [TextPart(content)] if content else []
            for call in chat.get("tool_calls") or ():
                arguments = conversation.arguments_of(call)
                parts.append(ToolCallPart(call["function"]["name"], arguments, call["id"]))
            return ModelResponse(parts=parts)
        case "tool":
            part: ModelRequestPart = ToolReturnPart(chat["name"], content, chat["tool_call_id"])
        case "system" | "developer":
            part = SystemPromptPart(content)
        case _:
            part = UserPromptPart(content)
    return part, ModelRequest(parts=[part])


def _changed(unit: _Unit, chat: dict[str, Any]) -> _Unit:
    """Returns a copy with another text and other arguments."""
    if isinstance(unit, ModelResponse):
        return dataclasses.replace(unit, parts=_response_parts(unit, chat))
    part, request = unit
    content: Any = getattr(part, "content", "")
    if isinstance(content, (list, tuple)) and not isinstance(part, RetryPromptPart):
        content = _changed_items(content, chat)
    else:
        content = conversation.text_of(chat)
    return dataclasses.replace(cast("UserPromptPart", part), content=content), request


def _changed_items(items: Sequence[Any], chat: dict[str, Any]) -> Any:
    """Returns items with another text. Images are kept, unless they were cut."""
    if isinstance(chat.get("content"), str) and any(_is_media(item) for item in items):
        return chat["content"]
    texts = conversation.other_texts([item for item in items if not _is_media(item)], chat)
    changed = []
    for item in items:
        if _is_media(item):
            changed.append(item)
        elif text := texts.pop(0) if texts else "":
            changed.append(text)
    return changed


def _response_parts(message: ModelResponse, chat: dict[str, Any]) -> list[Any]:
    calls = {call["id"]: call for call in chat.get("tool_calls") or ()}
    texts = [part.content for part in message.parts if isinstance(part, TextPart)]
    texts = [conversation.text_of(chat), *[""] * (len(texts) - 1)]
    parts: list[Any] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            if text := texts.pop(0):
                parts.append(dataclasses.replace(part, content=text))
        elif isinstance(part, ToolCallPart) and part.tool_call_id in calls:
            arguments = calls[part.tool_call_id]["function"]["arguments"]
            is_text = isinstance(part.args, str)
            args: Any = (
                arguments if is_text else conversation.arguments_of(calls[part.tool_call_id])
            )
            parts.append(dataclasses.replace(part, args=args))
        else:
            parts.append(part)
    return parts


_ADAPTER = conversation.Adapter[_Unit](new=_new, changed=_changed)
