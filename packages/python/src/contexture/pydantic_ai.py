"""Pydantic AI: fit the history of each model request.

```python
from pydantic_ai import Agent
from pydantic_ai.capabilities import ProcessHistory
from contexture.pydantic_ai import fit_history

agent = Agent("openai:gpt-5.6", capabilities=[ProcessHistory(fit_history(max_tokens=100_000))])
```
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from ._require import require

require("pydantic-ai-slim", (1, 0), "pydantic-ai")

from pydantic_ai.messages import (  # noqa: E402
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
) -> Callable[[list[ModelMessage]], Awaitable[list[ModelMessage]]]:
    """Returns a history processor that fits the messages into the context window.

    System prompts are kept as they are. The arguments are those of :func:`contexture.fit`; set
    `model` or `max_tokens`, because a processor does not get the name of the model.
    """

    async def process(messages: list[ModelMessage]) -> list[ModelMessage]:
        options = conversation.Options(
            max_tokens=max_tokens,
            model=model,
            reserve_response=reserve_response,
            session=session,
            report=False,
        )
        fitted = await conversation.afit(
            client or default_async_client(), encoded(messages), _ADAPTER, options
        )
        return joined(fitted.messages) if fitted.changed else messages

    return process


def encoded(messages: Sequence[ModelMessage]) -> list[Encoded[_Unit]]:
    """Returns the parts of messages with their form in OpenAI's Chat API."""
    units: list[Encoded[_Unit]] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            units.append(Encoded(_response(message), message))
        else:
            units += [Encoded(_part(part), (part, message)) for part in message.parts]
    return units


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
            messages[-1] = dataclasses.replace(request, parts=[*last.parts, part])
        else:
            messages.append(dataclasses.replace(request, parts=[part]))
    return messages


def _part(part: ModelRequestPart) -> dict[str, Any]:
    if isinstance(part, ToolReturnPart):
        return {
            "role": "tool",
            "tool_call_id": part.tool_call_id,
            "content": part.model_response_str(),
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
    texts = [item if isinstance(item, str) else f"[{type(item).__name__}]" for item in content]
    return {"role": "user", "content": "\n".join(texts)}


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
    content = chat.get("content") or ""
    match chat["role"]:
        case "assistant":
            parts: list[Any] = [TextPart(content)] if content else []
            for call in chat.get("tool_calls") or ():
                arguments = json.loads(call["function"]["arguments"] or "{}")
                parts.append(ToolCallPart(call["function"]["name"], arguments, call["id"]))
            return ModelResponse(parts=parts)
        case "tool":
            part: ModelRequestPart = ToolReturnPart("unknown", content, chat["tool_call_id"])
        case "system" | "developer":
            part = SystemPromptPart(content)
        case _:
            part = UserPromptPart(content)
    return part, ModelRequest(parts=[part])


def _shortened(unit: _Unit, text: str) -> _Unit:
    part, request = cast("tuple[ModelRequestPart, ModelRequest]", unit)
    return dataclasses.replace(cast("ToolReturnPart", part), content=text), request


_ADAPTER = conversation.Adapter[_Unit](new=_new, shortened=_shortened)
