"""LlamaIndex: a memory block over Contexture's memory.

```python
from llama_index.core.memory import Memory
from contexture.llama_index import ContextureMemoryBlock

memory = Memory.from_defaults(session_id="user-42", memory_blocks=[ContextureMemoryBlock()])
```

A block recalls what it remembered in the same session. With `user="…"` it recalls what it
remembered of that user, in every session. It never recalls other records of the store.
"""

from __future__ import annotations

import hashlib
from typing import Any

from ._require import require

require("llama-index-core", (0, 13), "llama-index")

from llama_index.core.base.llms.types import ChatMessage, MessageRole  # noqa: E402
from llama_index.core.bridge.pydantic import Field, PrivateAttr  # noqa: E402
from llama_index.core.memory.memory import BaseMemoryBlock  # noqa: E402

from ._default import default_async_client  # noqa: E402
from .client import AsyncClient  # noqa: E402

_SOURCE = "llama-index"
_TYPE = "llama-index-message"
_NO_SESSION = "llama-index"


class ContextureMemoryBlock(BaseMemoryBlock[str]):
    """Remembers the messages that leave the short-term memory, and recalls those that matter."""

    name: str = Field(default="Contexture", description="The name of the memory block.")
    max_tokens: int = Field(default=1000, description="The most tokens of recalled memories.")
    priority: int = Field(default=1, description="The priority of the block.")
    user: str | None = Field(
        default=None, description="The user whose messages are recalled. Default: the session's."
    )
    _client: AsyncClient | None = PrivateAttr(default=None)

    def __init__(self, *, client: AsyncClient | None = None, **fields: Any) -> None:
        """Uses `client`. Default: the client of this process."""
        super().__init__(**fields)
        self._client = client

    async def _aget(
        self,
        messages: list[ChatMessage] | None = None,
        session_id: str | None = None,
        **_: Any,
    ) -> str:
        asked = [
            message.content
            for message in messages or ()
            if message.role == MessageRole.USER and message.content
        ]
        if not asked:
            return ""
        client = self._client or default_async_client()
        scope = {"session": session_id or _NO_SESSION} if self.user is None else {"user": self.user}
        # Entities have no session: those of other records must not be recalled, either.
        filters = {**scope, "source": _SOURCE, "event_types": [_TYPE], "entity_types": [_TYPE]}
        found = await client.recall(query=asked[-1], max_tokens=self.max_tokens, filters=filters)
        return found.content

    async def _aput(self, messages: list[ChatMessage]) -> None:
        records = []
        for message in messages:
            if message.role not in (MessageRole.USER, MessageRole.ASSISTANT):
                continue
            if not message.content or not message.content.strip():
                continue
            session = message.additional_kwargs.get("session_id") or _NO_SESSION
            said = f"{self.user}\0{session}\0{message.role.value}\0{message.content}"
            # The same message is stored once, however often it is put.
            digest = hashlib.sha256(said.encode()).hexdigest()[:24]
            records.append(
                {
                    "kind": "event",
                    "id": f"llama-index/{digest}",
                    "type": _TYPE,
                    "source": _SOURCE,
                    "user": self.user,
                    "actor": message.role.value,
                    "session_id": session,
                    "content": message.content,
                }
            )
        if records:
            client = self._client or default_async_client()
            await client.record_memory(records=records)

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Removes lines from the end until the content has that many tokens less."""
        client = self._client or default_async_client()
        lines = content.splitlines()
        counted = await client.count_tokens(texts=[f"{line}\n" for line in lines])
        for row in reversed(counted.files):
            if tokens_to_truncate <= 0:
                break
            tokens_to_truncate -= row.tokens
            lines.pop()
        return "\n".join(lines) or None
