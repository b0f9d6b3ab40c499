"""LangChain: fit every model call of an agent, and record the conversation.

```python
from langchain.agents import create_agent
from contexture.langchain import ContextureMiddleware

agent = create_agent(model, tools, middleware=[ContextureMiddleware(max_tokens=100_000)])
```
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from ._require import require

require("langchain", (1, 0), "langchain")

from langchain.agents.middleware.types import (  # noqa: E402
    AgentMiddleware,
    ModelRequest,
    ModelResponse,
)
from langchain_core.messages import (  # noqa: E402
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_openai_messages,
)
from langchain_core.utils.function_calling import convert_to_openai_tool  # noqa: E402

from . import _conversation as conversation  # noqa: E402
from ._conversation import Encoded  # noqa: E402
from ._default import default_async_client, default_client  # noqa: E402
from ._transport import UNSET, Unset  # noqa: E402
from .client import AsyncClient, Client  # noqa: E402
from .errors import ContextureError, SessionWarning  # noqa: E402

if TYPE_CHECKING:
    _Request = ModelRequest[Any]
    _Response = ModelResponse[Any]
    _Middleware = AgentMiddleware[Any, Any, Any]
else:
    # The classes of LangChain 1.0 have fewer parameters.
    _Request, _Response, _Middleware = ModelRequest, ModelResponse, AgentMiddleware


class ContextureMiddleware(_Middleware):
    """Fits the messages of each model call into the context window.

    The agent's state keeps all messages; only what the model sees is shortened. Tool calls and
    their results stay together: a call that was interrupted gets a result that says so. The
    report is in `response_metadata["contexture"]` of the answer.
    """

    def __init__(
        self,
        *,
        max_tokens: int | Unset = UNSET,
        session: str | Callable[[_Request], str | None] | None = None,
        model: str | Unset = UNSET,
        reserve_response: int | Unset = UNSET,
        client: Client | None = None,
        async_client: AsyncClient | None = None,
    ) -> None:
        """Configures the middleware.

        Args:
            max_tokens: The size of the window, response included. Default: the model's.
            session: The session that records the conversation, or a function that returns its
                label, such as the id of the user's thread. It keeps summaries from call to call,
                so that the provider's cache stays valid. Default: none; nothing is stored.
            model: The model whose window and tokenizer count. Default: the agent's model.
            reserve_response: The tokens to keep free for the response.
            client: The client to use. Default: the client of this process.
            async_client: The same for asynchronous runs.
        """
        super().__init__()
        self._max_tokens = max_tokens
        self._session = session
        self._model = model
        self._reserve_response = reserve_response
        self._client = client
        self._async_client = async_client
        self._moved: dict[str, str] = {}

    def wrap_model_call(
        self, request: _Request, handler: Callable[[_Request], _Response]
    ) -> _Response:
        """Fits the request, calls the model and records the answer."""
        client = self._client or default_client(self._session is None)
        messages, options = encoded(request.messages), self._options(request)
        fitted = conversation.fit(client, messages, _ADAPTER, options)
        response = handler(request.override(messages=cast("Any", fitted.messages)))
        described, recorded = _described(response, fitted)
        if isinstance(fitted.session, str) and recorded is not None:
            try:
                client.record_turn(fitted.session, recorded)
            except ContextureError as error:
                _warn_unrecorded(described, fitted.session, error)
        return response

    async def awrap_model_call(
        self, request: _Request, handler: Callable[[_Request], Awaitable[_Response]]
    ) -> _Response:
        """Fits the request, calls the model and records the answer."""
        client = self._async_client or default_async_client(self._session is None)
        messages, options = encoded(request.messages), self._options(request)
        fitted = await conversation.afit(client, messages, _ADAPTER, options)
        response = await handler(request.override(messages=cast("Any", fitted.messages)))
        described, recorded = _described(response, fitted)
        if isinstance(fitted.session, str) and recorded is not None:
            try:
                await client.record_turn(fitted.session, recorded)
            except ContextureError as error:
                _warn_unrecorded(described, fitted.session, error)
        return response

    def _options(self, request: _Request) -> conversation.Options:
        session = self._session(request) if callable(self._session) else self._session
        # LangChain 1.0 has the text only.
        system = getattr(request, "system_message", None)
        text = _text(system) if system is not None else getattr(request, "system_prompt", None)
        return conversation.Options(
            max_tokens=self._max_tokens,
            model=self._model or _model_name(request.model) or UNSET,
            reserve_response=self._reserve_response,
            session=session or UNSET,
            tools=[_tool(tool) for tool in request.tools],
            system=text,
            moved=self._moved,
        )


def fit_messages(
    messages: Sequence[BaseMessage],
    *,
    max_tokens: int | Unset = UNSET,
    model: str | Unset = UNSET,
    reserve_response: int | Unset = UNSET,
    session: str | Unset = UNSET,
    client: Client | None = None,
) -> list[BaseMessage]:
    """Returns messages within a number of tokens, in place of `trim_messages`.

    System messages at the beginning are kept as they are. With `session`, the conversation is
    recorded, and its summary is used for many calls, so that the provider's cache is kept. Give
    the whole conversation each time.
    """
    start = 0
    while start < len(messages) and isinstance(messages[start], SystemMessage):
        start += 1
    options = conversation.Options(
        max_tokens=max_tokens,
        model=model,
        reserve_response=reserve_response,
        session=session,
        report=False,
        system="\n\n".join(_text(message) for message in messages[:start]) or None,
    )
    client = client or default_client(session is UNSET)
    fitted = conversation.fit(client, encoded(messages[start:]), _ADAPTER, options)
    return [*messages[:start], *fitted.messages]


def encoded(messages: Sequence[BaseMessage]) -> list[Encoded[BaseMessage]]:
    """Returns messages with their form in OpenAI's Chat API."""
    return [Encoded(_chat(message), message) for message in messages]


def _chat(message: BaseMessage) -> dict[str, Any]:
    if isinstance(message, ToolMessage):
        return {
            "role": "tool",
            "tool_call_id": message.tool_call_id,
            "content": _content(message),
        }
    if isinstance(message, AIMessage):
        # Calls whose arguments cannot be parsed are sent to the provider, too.
        calls = [
            conversation.call_of(call["id"], call["name"] or "", call["args"])
            for call in [*message.tool_calls, *message.invalid_tool_calls]
            if call["id"]
        ]
        chat: dict[str, Any] = {"role": "assistant", "content": _text(message) or None}
        if calls:
            chat["tool_calls"] = calls
        elif chat["content"] is None:
            chat["content"] = ""
        return chat
    role = "system" if isinstance(message, SystemMessage) else "user"
    return {"role": role, "content": _content(message)}


def _content(message: BaseMessage) -> Any:
    """Returns the content of a message with its images and files, so that they are counted."""
    if isinstance(message.content, str):
        return message.content
    parts: list[Any] = []
    for block in message.content:
        if isinstance(block, str):
            parts.append({"type": "text", "text": block})
        elif block.get("type") == "text":
            parts.append({"type": "text", "text": str(block.get("text", ""))})
        else:
            parts += _counted(block)
    return parts


def _counted(block: dict[str, Any]) -> list[Any]:
    try:
        found = convert_to_openai_messages(HumanMessage([block]))["content"]
    except ValueError:
        found = None
    if isinstance(found, list) and found and isinstance(found[0], dict):
        return found
    # Another provider's block: its name tells what it is.
    return [conversation.attachment_of(str(block.get("type", "block")))]


def _tool(tool: Any) -> dict[str, Any]:
    """Returns a tool in the form of OpenAI's Chat API. Tools of providers have many forms."""
    if not isinstance(tool, dict) or tool.get("type") == "function":
        try:
            return convert_to_openai_tool(tool)
        except ValueError:
            pass
    name = "tool"
    if isinstance(tool, dict):
        name = str(tool.get("name") or tool.get("type") or next(iter(tool), name))
    name = re.sub(r"[^\w-]", "_", name)[:64]
    description = json.dumps(tool, ensure_ascii=False, default=str)
    return {"type": "function", "function": {"name": name, "description": description}}


def _text(message: BaseMessage) -> str:
    return str(message.text)


def _new(chat: dict[str, Any]) -> BaseMessage:
    content = chat.get("content") or ""
    match chat["role"]:
        case "tool":
            return ToolMessage(
                content=content, tool_call_id=chat["tool_call_id"], name=chat.get("name")
            )
        case "assistant":
            calls = [
                {
                    "id": call["id"],
                    "name": call["function"]["name"],
                    "args": conversation.arguments_of(call),
                }
                for call in chat.get("tool_calls") or ()
            ]
            return AIMessage(content=content, tool_calls=calls)
        case "system" | "developer":
            return SystemMessage(content=content)
        case _:
            return HumanMessage(content=content)


def _changed(message: BaseMessage, chat: dict[str, Any]) -> BaseMessage:
    """Returns a copy of a message with another text and other arguments."""
    calls = {call["id"]: call for call in chat.get("tool_calls") or ()}
    update: dict[str, Any] = {"content": _with_texts(message, chat, calls)}
    if isinstance(message, AIMessage) and calls:
        update["tool_calls"] = [
            {**call, "args": conversation.arguments_of(calls[call["id"]])}
            if call["id"] in calls
            else call
            for call in message.tool_calls
        ]
        update["invalid_tool_calls"] = [
            {**call, "args": calls[call["id"]]["function"]["arguments"]}
            if call["id"] in calls
            else call
            for call in message.invalid_tool_calls
        ]
        # The calls as the provider sent them, with the former arguments.
        update["additional_kwargs"] = {
            name: value
            for name, value in message.additional_kwargs.items()
            if name not in ("tool_calls", "function_call")
        }
    return message.model_copy(update=update)


def _with_texts(message: BaseMessage, chat: dict[str, Any], calls: dict[str, Any]) -> Any:
    """Returns the content of a message with another text. Images and other blocks are kept."""
    if isinstance(message.content, str):
        return conversation.text_of(chat)
    found = [_block_text(block) or "" for block in message.content]
    found = [text for text in found if text.strip()]
    texts = conversation.other_texts(found, chat)
    content: list[Any] = []
    if not found and texts and texts[0]:
        content.append({"type": "text", "text": texts[0]})
    blocks: list[Any] = message.content
    for block in blocks:
        text = _block_text(block)
        if text is None:
            call = calls.get(block.get("id", "")) if isinstance(block, dict) else None
            if call is not None and "input" in block:
                block = {**block, "input": conversation.arguments_of(call)}
            content.append(block)
        elif text.strip() and (shown := texts.pop(0)):
            content.append(shown if isinstance(block, str) else {**block, "text": shown})
    return content


def _block_text(block: Any) -> str | None:
    if isinstance(block, str):
        return block
    return str(block.get("text", "")) if block.get("type") == "text" else None


_ADAPTER = conversation.Adapter[BaseMessage](new=_new, changed=_changed)


def _model_name(model: Any) -> str | None:
    for name in ("model_name", "model", "model_id"):
        value = getattr(model, name, None)
        if isinstance(value, str) and value:
            return value.rsplit("/", 1)[-1]
    return None


def _warn_unrecorded(described: dict[str, Any], session: str, error: ContextureError) -> None:
    """Reports that an answer was not recorded. The answer itself must not be lost."""
    warning = f"the answer is not recorded in session {session!r}: {error}"
    described["warnings"].append(warning)
    warnings.warn(warning, SessionWarning, stacklevel=3)


def _described(
    response: _Response, fitted: conversation.Fitted[BaseMessage]
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Adds the report to the answer. Returns the report, and the answer as a turn to record."""
    answer = next((message for message in response.result if isinstance(message, AIMessage)), None)
    if answer is None:
        return {}, None
    report = fitted.report
    described: dict[str, Any] = {
        "changed": fitted.changed,
        "tokens": report.budget.used if report else None,
        "max_tokens": report.budget.max if report else None,
        "messages": len(fitted.messages),
        "left_out": [row.id for row in report.excluded][:50] if report else [],
        "warnings": [warning.message for warning in report.warnings] if report else [],
    }
    described["warnings"] += fitted.warnings
    if isinstance(fitted.session, str):
        described["session"] = fitted.session
    answer.response_metadata["contexture"] = described
    chat = fitted.recorded(_chat(answer))
    turn: dict[str, Any] = {
        "object": "chat.completion",
        "model": answer.response_metadata.get("model_name", "unknown"),
        "choices": [
            {
                "index": 0,
                "message": chat,
                "finish_reason": "tool_calls" if chat.get("tool_calls") else "stop",
            }
        ],
    }
    usage = answer.usage_metadata
    if usage is not None:
        turn["usage"] = {
            "prompt_tokens": usage["input_tokens"],
            "completion_tokens": usage["output_tokens"],
            "total_tokens": usage["total_tokens"],
            "prompt_tokens_details": {
                "cached_tokens": usage.get("input_token_details", {}).get("cache_read", 0)
            },
        }
    if not chat.get("tool_calls") and not str(chat["content"]).strip():
        # An empty answer is no turn.
        return described, None
    return described, {"response": turn}
