"""OpenAI Agents SDK: a session in Contexture's store, and a filter that fits each model call.

```python
from contexture.openai_agents import ContextureSession, fit_input

await Runner.run(agent, "…", session=ContextureSession("user-42"),
                 run_config=RunConfig(call_model_input_filter=fit_input(max_tokens=100_000)))
```
"""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, cast
from urllib.parse import quote

from ._require import require

require("openai-agents", (0, 8), "openai-agents")

from agents import (  # noqa: E402
    AgentOutputSchema,
    AgentOutputSchemaBase,
    RunContextWrapper,
    TResponseInputItem,
)
from agents.memory import SessionABC  # noqa: E402
from agents.run import CallModelData, ModelInputData  # noqa: E402

from . import models  # noqa: E402
from ._conversation import NO_RESULT, SessionChoice  # noqa: E402
from ._default import default_async_client  # noqa: E402
from ._transport import UNSET, Unset  # noqa: E402
from .client import AsyncClient  # noqa: E402
from .errors import ApiError  # noqa: E402

# Records of one call when items are read, and the most bytes of one call when they are written.
_PAGE = 200
_MAX_BYTES = 4_000_000
# The time after which the tools of MCP servers are listed again.
_LISTED_SECONDS = 60


class ContextureSession(SessionABC):
    """A session whose items are in Contexture's store.

    Each item is a record of its own, which is written once: several processes can add items at
    the same time. The items are not found by memory searches: they are visible to this session
    only.
    """

    def __init__(self, session_id: str, *, client: AsyncClient | None = None) -> None:
        """Opens the session `session_id`, which need not exist."""
        self.session_id = session_id
        self._given = client
        self._owner = f"openai-agents/{quote(session_id, safe='')}"

    @property
    def _client(self) -> AsyncClient:
        return self._given or default_async_client()

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Returns the items, oldest first: all, or the latest `limit`.

        The default of `limit` is that of `session_settings`.
        """
        if limit is None:
            limit = getattr(getattr(self, "session_settings", None), "limit", None)
        items = [_item(record) for record in await self._records()]
        return items if limit is None or limit < 0 else items[max(0, len(items) - limit) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Appends items."""
        records: list[dict[str, Any]] = []
        size = 0
        for item in items:
            record = self._record(item)
            length = len(json.dumps(record, default=str))
            if records and size + length > _MAX_BYTES:
                await self._client.record_memory(records=records)
                records, size = [], 0
            records.append(record)
            size += length
        if records:
            await self._client.record_memory(records=records)

    async def pop_item(self) -> TResponseInputItem | None:
        """Removes the latest item and returns it."""
        records = await self._records()
        while records:
            record = records.pop()
            try:
                await self._client.forget_record(record.id or "")
            except ApiError as error:
                # Another call has removed it, and returns it.
                if error.status != 404:
                    raise
                continue
            return _item(record)
        return None

    async def clear_session(self) -> None:
        """Removes all items. No copy of them stays in the store."""
        await self._client.forget(models.ForgetRequest2(session=self._owner))

    def _record(self, item: TResponseInputItem) -> dict[str, Any]:
        return {
            "kind": "event",
            "id": f"{self._owner}#{time.time_ns():x}-{uuid.uuid4().hex}",
            "type": "openai-agents",
            "content": {"item": item},
            "session_id": self._owner,
            "visible_to": [self._owner],
        }

    async def _records(self) -> list[models.RecordEventOutput]:
        records: list[models.RecordEventOutput] = []
        after: str | Unset = UNSET
        while True:
            page = await self._client.list_records(
                kind="event", session=self._owner, limit=_PAGE, after=after
            )
            records += [
                record for record in page.records if isinstance(record, models.RecordEventOutput)
            ]
            if not page.next:
                return records
            after = page.next


def _item(record: models.RecordEventOutput) -> TResponseInputItem:
    return cast("TResponseInputItem", cast("dict[str, Any]", record.content)["item"])


def fit_input(
    *,
    max_tokens: int | Unset = UNSET,
    session: str | Unset = UNSET,
    model: str | Unset = UNSET,
    reserve_response: int | Unset = UNSET,
    client: AsyncClient | None = None,
) -> Callable[[CallModelData[Any]], Awaitable[ModelInputData]]:
    """Returns a filter for `RunConfig.call_model_input_filter` that fits each model call.

    The run and its session keep all items; only what the model sees is shortened. The arguments
    are those of :func:`contexture.fit`.
    """

    moved: dict[str, str] = {}
    listed: dict[tuple[int, ...], tuple[float, list[Any]]] = {}

    async def mcp_tools(data: CallModelData[Any]) -> list[Any]:
        """Returns the tools of the agent's MCP servers. They are listed again after a minute."""
        servers = getattr(data.agent, "mcp_servers", None) or []
        key = tuple(id(server) for server in servers)
        known = listed.get(key)
        if servers and (known is None or time.monotonic() - known[0] > _LISTED_SECONDS):
            found = await data.agent.get_mcp_tools(RunContextWrapper(data.context))
            known = listed[key] = (time.monotonic(), list(found))
        return known[1] if known else []

    async def filter_input(data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        items = _paired(given.input)
        request: dict[str, Any] = {"model": _model_name(data.agent.model) or "gpt-5"}
        request["input"] = items
        if given.instructions:
            request["instructions"] = given.instructions
        tools = [*data.agent.tools, *await mcp_tools(data), *data.agent.handoffs]
        counted = [_tool(tool) for tool in tools] + _output_schema(data.agent)
        if counted:
            request["tools"] = counted
        choice = SessionChoice(session, moved)
        while True:
            try:
                answer = await (client or default_async_client(session is UNSET)).fit(
                    request=request,
                    from_="openai-responses",
                    max_tokens=max_tokens,
                    session=choice.label,
                    model=model,
                    reserve_response=reserve_response,
                    report=False,
                )
                break
            except ApiError as error:
                if not choice.continues_after(error):
                    raise
        choice.warnings()
        fitted = answer.request["input"] if answer.changed else items
        return ModelInputData(input=fitted, instructions=given.instructions)

    return filter_input


def _model_name(model: Any) -> str | None:
    """Returns the name of a model, which is a string or an object."""
    name = model if isinstance(model, str) else getattr(model, "model", None)
    return name.rsplit("/", 1)[-1] if isinstance(name, str) else None


def _tool(tool: Any) -> dict[str, Any]:
    """Returns a tool or a handoff as a function, so that it is counted."""
    name = getattr(tool, "tool_name", None) or getattr(tool, "name", None) or type(tool).__name__
    described = getattr(tool, "description", None) or getattr(tool, "tool_description", None)
    schema = getattr(tool, "params_json_schema", None)
    return {
        "type": "function",
        "name": str(name),
        "description": str(described or getattr(tool, "handoff_description", None) or ""),
        "parameters": schema or getattr(tool, "input_json_schema", None) or {},
    }


def _output_schema(agent: Any) -> list[dict[str, Any]]:
    """Returns the schema of the agent's output as a function, so that it is counted."""
    given = getattr(agent, "output_type", None)
    if given is None or given is str:
        return []
    schema = given if isinstance(given, AgentOutputSchemaBase) else AgentOutputSchema(given, False)
    if schema.is_plain_text():
        return []
    return [{"type": "function", "name": "final_output", "parameters": schema.json_schema()}]


def _paired(items: list[TResponseInputItem]) -> list[TResponseInputItem]:
    """Returns items in which every function call has one output, before the next message.

    An output that comes later is moved to its call. A call without an output gets one that says
    so. An output without a call is left out. Ids that are repeated get a number.
    """
    found = _with_unique_ids([cast("dict[str, Any]", item) for item in items])
    outputs = {item["call_id"]: item for item in found if _kind(item) == "function_call_output"}
    result: list[dict[str, Any]] = []
    waiting: dict[str, None] = {}
    done: set[str] = set()

    def close() -> None:
        for call in waiting:
            none = {"type": "function_call_output", "call_id": call, "output": NO_RESULT}
            result.append(outputs.get(call, none))
            done.add(call)
        waiting.clear()

    for item in found:
        kind = _kind(item)
        if kind == "function_call_output":
            call = item["call_id"]
            if call in waiting and call not in done:
                del waiting[call]
                done.add(call)
                result.append(item)
            continue
        # Parallel calls, each with its reasoning, come before their outputs.
        follows_output = bool(result) and _kind(result[-1]) == "function_call_output"
        if kind not in ("function_call", "reasoning") or follows_output:
            close()
        result.append(item)
        if kind == "function_call":
            waiting[item["call_id"]] = None
    close()
    return cast("list[TResponseInputItem]", result)


def _with_unique_ids(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns items in which no two calls have the same id.

    Several providers count their calls from zero in each answer. An output belongs to the latest
    call with its id that has none.
    """
    counts: Counter[str] = Counter()
    waiting: dict[str, list[str]] = {}
    result = []
    for item in items:
        call = item.get("call_id")
        if _kind(item) == "function_call" and isinstance(call, str):
            counts[call] += 1
            name = call if counts[call] == 1 else f"{call}~{counts[call]}"
            waiting.setdefault(call, []).append(name)
            item = item if name == call else {**item, "call_id": name}
        elif _kind(item) == "function_call_output" and waiting.get(str(call)):
            name = waiting[str(call)].pop()
            item = item if name == call else {**item, "call_id": name}
        elif _kind(item) == "function_call_output":
            continue
        result.append(item)
    return result


def _kind(item: dict[str, Any]) -> str:
    return str(item.get("type", "message"))
