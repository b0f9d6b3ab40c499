"""LangGraph: a long-term store over Contexture's memory.

```python
from contexture.langgraph import ContextureStore

graph = builder.compile(store=ContextureStore())
```

Items are memory records, so that `search` finds them by words and by meaning, and every other
request with memory can use them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote, unquote

from ._require import require

require("langgraph-checkpoint", (3, 0), "langgraph")

from langgraph.store.base import (  # noqa: E402
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from . import models  # noqa: E402
from ._default import default_client  # noqa: E402
from .client import Client  # noqa: E402
from .errors import ApiError  # noqa: E402

_PREFIX = "langgraph/"
_SEARCH_TOKENS = 32_000


class ContextureStore(BaseStore):
    """A `BaseStore` whose items are records of Contexture's memory."""

    supports_ttl = False

    def __init__(self, client: Client | None = None) -> None:
        """Uses `client`. Default: the client of this process."""
        self._given = client

    @property
    def _client(self) -> Client:
        return self._given or default_client()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Runs operations in order. Several writes to one key keep the last."""
        ops = list(ops)
        last = {(op.namespace, op.key): at for at, op in enumerate(ops) if isinstance(op, PutOp)}
        results: list[Result] = []
        for at, op in enumerate(ops):
            match op:
                case GetOp():
                    results.append(self._get(op))
                case SearchOp():
                    results.append(self._search(op))
                case ListNamespacesOp():
                    results.append(self._namespaces(op))
                case PutOp():
                    if last[(op.namespace, op.key)] == at:
                        self._put(op)
                    results.append(None)
                case _:
                    raise TypeError(f"unknown operation {type(op).__name__}")
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Runs operations in order, in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _get(self, op: GetOp) -> Item | None:
        record = self._record(_id(op.namespace, op.key))
        return _item(record) if record is not None else None

    def _record(self, record_id: str) -> models.RecordEventOutput | None:
        try:
            found = self._client.get_record(record_id)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        for record in found.records:
            if isinstance(record, models.RecordEventOutput):
                return record
        return None

    def _put(self, op: PutOp) -> None:
        record_id = _id(op.namespace, op.key)
        known = self._record(record_id)
        if op.value is None:
            if known is not None:
                self._client.forget_record(record_id)
            return
        now = datetime.now(timezone.utc).isoformat()
        created = _content(known).get("created_at", now) if known is not None else now
        content = {"value": op.value, "created_at": created, "updated_at": now}
        record: dict[str, Any] = {"kind": "event", "id": record_id, "content": content}
        record["type"] = _type(op.namespace)
        if op.index is False:
            # Found by its key only, not by a search.
            record["visible_to"] = [_PREFIX]
        self._client.record_memory(records=[record])

    def _all(self, prefix: tuple[str, ...]) -> Iterator[models.RecordEventOutput]:
        for record in self._client.export_memory():
            record_id = record.get("id", "")
            if record.get("kind") == "event" and record_id.startswith(_PREFIX):
                namespace, _ = _parsed(record_id)
                if namespace[: len(prefix)] == prefix:
                    yield models.RecordEventOutput.model_validate(record)

    def _search(self, op: SearchOp) -> list[SearchItem]:
        records = {record.id: record for record in self._all(op.namespace_prefix)}
        scores: dict[str, float | None] = dict.fromkeys(records)
        if op.query and records:
            found = self._client.recall(
                query=op.query,
                max_tokens=_SEARCH_TOKENS,
                filters={"event_types": sorted({record.type or "" for record in records.values()})},
            )
            scores = {
                part.source: part.relevance_score
                for part in found.components
                if part.source in records
            }
        items = []
        for record_id, score in scores.items():
            item = _item(records[record_id])
            if _matches(item.value, op.filter or {}):
                items.append(
                    SearchItem(
                        namespace=item.namespace,
                        key=item.key,
                        value=item.value,
                        created_at=item.created_at,
                        updated_at=item.updated_at,
                        score=score,
                    )
                )
        if op.query:
            items.sort(key=lambda item: -(item.score or 0.0))
        return items[op.offset : op.offset + op.limit]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        found = {_parsed(record.id or "")[0] for record in self._all(())}
        conditions = op.match_conditions or ()
        found = {name for name in found if all(_fits(name, condition) for condition in conditions)}
        if op.max_depth is not None:
            found = {name[: op.max_depth] for name in found}
        return sorted(found)[op.offset : op.offset + op.limit]


def _type(namespace: tuple[str, ...]) -> str:
    return _PREFIX + "/".join(quote(part, safe="") for part in namespace)


def _id(namespace: tuple[str, ...], key: str) -> str:
    return f"{_type(namespace)}#{quote(key, safe='')}"


def _parsed(record_id: str) -> tuple[tuple[str, ...], str]:
    namespace, _, key = record_id.removeprefix(_PREFIX).rpartition("#")
    return tuple(unquote(part) for part in namespace.split("/") if part), unquote(key)


def _content(record: models.RecordEventOutput) -> dict[str, Any]:
    return record.content if isinstance(record.content, dict) else {}


def _item(record: models.RecordEventOutput) -> Item:
    namespace, key = _parsed(record.id or "")
    content = _content(record)
    return Item(
        namespace=namespace,
        key=key,
        value=content["value"],
        created_at=datetime.fromisoformat(content["created_at"]),
        updated_at=datetime.fromisoformat(content["updated_at"]),
    )


def _matches(value: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Returns true if a value has the wanted fields. Operators are those of LangGraph's stores."""
    for name, want in wanted.items():
        have = value.get(name)
        if isinstance(want, dict) and any(key.startswith("$") for key in want):
            for operator, operand in want.items():
                if not _compares(operator, have, operand):
                    return False
        elif have != want:
            return False
    return True


def _compares(operator: str, have: Any, operand: Any) -> bool:
    match operator:
        case "$eq":
            return bool(have == operand)
        case "$ne":
            return bool(have != operand)
        case "$gt" | "$gte" | "$lt" | "$lte":
            if have is None:
                return False
            have, operand = float(have), float(operand)
            if have == operand:
                return operator in ("$gte", "$lte")
            return bool((have > operand) == operator.startswith("$gt"))
        case _:
            raise ValueError(f"unknown operator {operator}: use $eq, $ne, $gt, $gte, $lt or $lte")


def _fits(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return all(want in ("*", have) for have, want in zip(part, path, strict=True))
