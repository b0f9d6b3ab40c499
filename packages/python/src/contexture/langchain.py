"""LangChain: fit every model call of an agent, and record the conversation.

```python
from langchain.agents import create_agent
from contexture.langchain import ContextureMiddleware

agent = create_agent(model, tools, middleware=[ContextureMiddleware(max_tokens=100_000)])
```
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

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
from .errors import ApiError  # noqa: E402

_Request = ModelRequest[Any]
_Response = ModelResponse[Any]


class ContextureMiddleware(AgentMiddleware[Any, Any, Any]):
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

    def wrap_model_call(
        self, request: _Request, handler: Callable[[_Request], _Response]
    ) -> _Response:
        """Fits the request, calls the model and records the answer."""
        client = self._client or default_client()
        options, messages = self._options(request), encoded(request.messages)
        try:
            fitted = conversation.fit(client, messages, _ADAPTER, options)
        except ApiError as error:
            options = _without_session(options, error)
            fitted = conversation.fit(client, messages, _ADAPTER, options)
        response = handler(request.override(messages=cast("Any", fitted.messages)))
        recorded = _described(response, fitted)
        if options.session is not UNSET and recorded is not None:
            client.record_turn(str(options.session), recorded)
        return response

    async def awrap_model_call(
        self, request: _Request, handler: Callable[[_Request], Awaitable[_Response]]
    ) -> _Response:
        """Fits the request, calls the model and records the answer."""
        client = self._async_client or default_async_client()
        options, messages = self._options(request), encoded(request.messages)
        try:
            fitted = await conversation.afit(client, messages, _ADAPTER, options)
        except ApiError as error:
            options = _without_session(options, error)
            fitted = await conversation.afit(client, messages, _ADAPTER, options)
        response = await handler(request.override(messages=cast("Any", fitted.messages)))
        recorded = _described(response, fitted)
        if options.session is not UNSET and recorded is not None:
            await client.record_turn(str(options.session), recorded)
        return response

    def _options(self, request: _Request) -> conversation.Options:
        session = self._session(request) if callable(self._session) else self._session
        system = request.system_message
        return conversation.Options(
            max_tokens=self._max_tokens,
            model=self._model or _model_name(request.model) or UNSET,
            reserve_response=self._reserve_response,
            session=session or UNSET,
            tools=[convert_to_openai_tool(tool) for tool in request.tools],
            system=_text(system) if system is not None else None,
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
    client = client or default_client()
    given = encoded(messages[start:])
    try:
        fitted = conversation.fit(client, given, _ADAPTER, options)
    except ApiError as error:
        fitted = conversation.fit(client, given, _ADAPTER, _without_session(options, error))
    return [*messages[:start], *fitted.messages]


def encoded(messages: Sequence[BaseMessage]) -> list[Encoded[BaseMessage]]:
    """Returns messages with their form in OpenAI's Chat API."""
    return [Encoded(_chat(message), message) for message in messages]


def _chat(message: BaseMessage) -> dict[str, Any]:
    if isinstance(message, ToolMessage):
        return {
            "role": "tool",
            "tool_call_id": message.tool_call_id,
            "content": _text(message),
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
    content: Any = message.content
    if not isinstance(content, str):
        try:
            content = convert_to_openai_messages(message)["content"]
        except ValueError:
            content = _text(message)
    return {"role": role, "content": content}


def _text(message: BaseMessage) -> str:
    return str(message.text)


def _new(chat: dict[str, Any]) -> BaseMessage:
    content = chat.get("content") or ""
    match chat["role"]:
        case "tool":
            return ToolMessage(content=content, tool_call_id=chat["tool_call_id"])
        case "assistant":
            calls = [
                {
                    "id": call["id"],
                    "name": call["function"]["name"],
                    "args": json.loads(call["function"]["arguments"] or "{}"),
                }
                for call in chat.get("tool_calls") or ()
            ]
            return AIMessage(content=content, tool_calls=calls)
        case "system" | "developer":
            return SystemMessage(content=content)
        case _:
            return HumanMessage(content=content)


def _shortened(message: BaseMessage, text: str) -> BaseMessage:
    return message.model_copy(update={"content": text})


_ADAPTER = conversation.Adapter[BaseMessage](new=_new, shortened=_shortened)


def _model_name(model: Any) -> str | None:
    for name in ("model_name", "model", "model_id"):
        value = getattr(model, name, None)
        if isinstance(value, str) and value:
            return value.rsplit("/", 1)[-1]
    return None


def _without_session(options: conversation.Options, error: ApiError) -> conversation.Options:
    """Returns the options for a second try after the session was rejected.

    A conversation whose earlier messages were edited or removed does not continue its session.
    The model must still get an answer, so the call is fitted without the session.
    """
    if options.session is UNSET or error.status not in (409, 422):
        raise error
    options.session = UNSET
    return options


def _described(
    response: _Response, fitted: conversation.Fitted[BaseMessage]
) -> dict[str, Any] | None:
    """Adds the report to the answer, and returns the answer as a turn to record."""
    answer = next((message for message in response.result if isinstance(message, AIMessage)), None)
    if answer is None:
        return None
    report = fitted.report
    answer.response_metadata["contexture"] = {
        "changed": fitted.changed,
        "tokens": report.budget.used if report else None,
        "max_tokens": report.budget.max if report else None,
        "messages": len(fitted.messages),
        "left_out": [row.id for row in report.excluded][:50] if report else [],
        "warnings": [warning.message for warning in report.warnings] if report else [],
    }
    chat = _chat(answer)
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
        return None
    return {"response": turn}
