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
import hashlib
import json
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
        if _has_large_numbers(op.value):
            # JSON numbers of the store have 64 bits.
            content["json"] = json.dumps(op.value)
        if record_id != _plain_id(op.namespace, op.key):
            content |= {"namespace": list(op.namespace), "key": op.key}
        record: dict[str, Any] = {"kind": "event", "id": record_id, "content": content}
        record["type"] = _type(op.namespace)
        if op.index is False:
            # Found by its key only, not by a search.
            record["visible_to"] = [_PREFIX]
        self._client.record_memory(records=[record])

    def _all(self, prefix: tuple[str, ...]) -> Iterator[models.RecordEventOutput]:
        for record in self._client.export_memory():
            if record.get("kind") == "event" and record.get("id", "").startswith(_PREFIX):
                found = models.RecordEventOutput.model_validate(record)
                if _place(found)[0][: len(prefix)] == prefix:
                    yield found

    def _search(self, op: SearchOp) -> list[SearchItem]:
        found_records = sorted(
            self._all(op.namespace_prefix), key=lambda record: str(_content(record)["created_at"])
        )
        records = {record.id or "": record for record in found_records}
        scores: dict[str, float | None] = dict.fromkeys(records)
        if op.query and records:
            found = self._client.recall(
                query=op.query,
                max_tokens=_SEARCH_TOKENS,
                filters={"event_types": sorted({record.type or "" for record in records.values()})},
            )
            # Items that are not indexed, or not recalled, follow those with a score.
            for part in found.components:
                if part.source in scores:
                    scores[part.source] = part.relevance_score
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
            items.sort(key=lambda item: (item.score is None, -(item.score or 0.0)))
        return items[op.offset : op.offset + op.limit]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        found = {_place(record)[0] for record in self._all(())}
        conditions = op.match_conditions or ()
        found = {name for name in found if all(_fits(name, condition) for condition in conditions)}
        if op.max_depth is not None:
            found = {name[: op.max_depth] for name in found}
        return sorted(found)[op.offset : op.offset + op.limit]


# The store accepts ids of 512 bytes.
_MAX_ID = 500


def _type(namespace: tuple[str, ...]) -> str:
    plain = _PREFIX + "/".join(quote(part, safe="") for part in namespace)
    return plain if len(plain) <= _MAX_ID else f"{_PREFIX}~{_digest(plain)}"


def _plain_id(namespace: tuple[str, ...], key: str) -> str:
    return f"{_type(namespace)}#{quote(key, safe='')}"


def _id(namespace: tuple[str, ...], key: str) -> str:
    plain = _plain_id(namespace, key)
    if len(plain) <= _MAX_ID and not plain.startswith(f"{_PREFIX}~"):
        return plain
    return f"{_PREFIX}~~{_digest(repr((namespace, key)))}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _place(record: models.RecordEventOutput) -> tuple[tuple[str, ...], str]:
    """Returns the namespace and the key of a record. Long ones are in its content."""
    content = _content(record)
    if "key" in content and "namespace" in content:
        return tuple(content["namespace"]), content["key"]
    namespace, _, key = (record.id or "").removeprefix(_PREFIX).rpartition("#")
    return tuple(unquote(part) for part in namespace.split("/") if part), unquote(key)


def _has_large_numbers(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_large_numbers, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_has_large_numbers, value))
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def _content(record: models.RecordEventOutput) -> dict[str, Any]:
    return record.content if isinstance(record.content, dict) else {}


def _item(record: models.RecordEventOutput) -> Item:
    namespace, key = _place(record)
    content = _content(record)
    value = json.loads(content["json"]) if "json" in content else content["value"]
    return Item(
        namespace=namespace,
        key=key,
        value=value,
        created_at=datetime.fromisoformat(content["created_at"]),
        updated_at=datetime.fromisoformat(content["updated_at"]),
    )


def _matches(value: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Returns true if a value has the wanted fields. Operators are those of LangGraph's stores."""
    return all(_agrees(value.get(name), want) for name, want in wanted.items())


def _agrees(have: Any, want: Any) -> bool:
    if isinstance(want, dict):
        if any(key.startswith("$") for key in want):
            return all(_compares(operator, have, operand) for operator, operand in want.items())
        if not isinstance(have, dict):
            return False
        return all(_agrees(have.get(name), inner) for name, inner in want.items())
    if isinstance(want, (list, tuple)):
        is_list = isinstance(have, (list, tuple)) and len(have) == len(want)
        return is_list and all(map(_agrees, have, want))
    return bool(have == want)


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
