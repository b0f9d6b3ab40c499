"""OpenAI Agents SDK: a session in Contexture's store, and a filter that fits each model call.

```python
from contexture.openai_agents import ContextureSession, fit_input

await Runner.run(agent, "…", session=ContextureSession("user-42"),
                 run_config=RunConfig(call_model_input_filter=fit_input(max_tokens=100_000)))
```
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast
from urllib.parse import quote

from ._require import require

require("openai-agents", (0, 8), "openai-agents")

from agents import TResponseInputItem  # noqa: E402
from agents.memory import SessionABC  # noqa: E402
from agents.run import CallModelData, ModelInputData  # noqa: E402

from . import models  # noqa: E402
from ._conversation import NO_RESULT  # noqa: E402
from ._default import default_async_client  # noqa: E402
from ._transport import UNSET, Unset  # noqa: E402
from .client import AsyncClient  # noqa: E402
from .errors import ApiError  # noqa: E402

# Items of one record: small enough to be rewritten often, large enough to be read with few calls.
_PAGE = 32


class ContextureSession(SessionABC):
    """A session whose items are in Contexture's store.

    The items are not found by memory searches: they are visible to this session only.
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
        """Returns the items, oldest first: all, or the latest `limit`."""
        items: list[TResponseInputItem] = []
        for page in await self._pages():
            items += page
        return items if limit is None else items[max(0, len(items) - limit) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Appends items."""
        if not items:
            return
        pages = await self._pages()
        at = max(0, len(pages) - 1)
        last = [*(pages[-1] if pages else []), *items]
        records = []
        for start in range(0, len(last), _PAGE):
            records.append(self._record(at + start // _PAGE, last[start : start + _PAGE]))
        await self._client.record_memory(records=records)

    async def pop_item(self) -> TResponseInputItem | None:
        """Removes the latest item and returns it."""
        pages = await self._pages()
        if not pages:
            return None
        *rest, item = pages[-1]
        at = len(pages) - 1
        if rest:
            await self._client.record_memory(records=[self._record(at, rest)])
        else:
            await self._client.forget_record(self._id(at))
        return item

    async def clear_session(self) -> None:
        """Removes all items. No copy of them stays in the store."""
        for at in reversed(range(len(await self._pages()))):
            await self._client.forget_record(self._id(at))

    def _id(self, page: int) -> str:
        return f"{self._owner}#{page}"

    def _record(self, page: int, items: list[TResponseInputItem]) -> dict[str, Any]:
        return {
            "kind": "event",
            "id": self._id(page),
            "type": "openai-agents",
            "content": {"items": items},
            "visible_to": [self._owner],
        }

    async def _pages(self) -> list[list[TResponseInputItem]]:
        pages: list[list[TResponseInputItem]] = []
        while True:
            try:
                found = await self._client.get_record(self._id(len(pages)))
            except ApiError as error:
                if error.status == 404:
                    return pages
                raise
            record = found.records[0]
            assert isinstance(record, models.RecordEventOutput)
            content = cast("dict[str, Any]", record.content)
            pages.append(content["items"])


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

    async def filter_input(data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        items = _paired(given.input)
        name = data.agent.model if isinstance(data.agent.model, str) else None
        request: dict[str, Any] = {"model": name or "gpt-5", "input": items}
        if given.instructions:
            request["instructions"] = given.instructions
        answer = await (client or default_async_client()).fit(
            request=request,
            from_="openai-responses",
            max_tokens=max_tokens,
            session=session,
            model=model,
            reserve_response=reserve_response,
            report=False,
        )
        fitted = answer.request["input"] if answer.changed else items
        return ModelInputData(input=fitted, instructions=given.instructions)

    return filter_input


def _paired(items: list[TResponseInputItem]) -> list[TResponseInputItem]:
    """Returns items in which every function call has one output, before the next message.

    A call without an output gets one that says so. An output without a call is left out.
    """
    found = [cast("dict[str, Any]", item) for item in items]
    outputs = {item["call_id"]: item for item in found if _kind(item) == "function_call_output"}
    result: list[dict[str, Any]] = []
    waiting: dict[str, None] = {}

    def close() -> None:
        for call in waiting:
            none = {"type": "function_call_output", "call_id": call, "output": NO_RESULT}
            result.append(outputs.get(call, none))
        waiting.clear()

    for item in found:
        kind = _kind(item)
        if kind == "function_call_output":
            if item["call_id"] in waiting:
                del waiting[item["call_id"]]
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


def _kind(item: dict[str, Any]) -> str:
    return str(item.get("type", "message"))
