"""`contexture.fit` for the plain clients of providers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anthropic.types
import pytest
from pydantic import TypeAdapter
from traces import chat, pairing_errors, run

import contexture

MODEL = "gpt-5.6"


def repaired(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Gives every interrupted call a result, as an agent must before it calls a provider."""
    from contexture._conversation import Encoded, paired

    return [part.chat for part in paired([Encoded(message, message) for message in messages])]


def test_a_request_that_fits_is_unchanged(client: contexture.Client) -> None:
    request = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "timeout": 5.0}
    assert contexture.fit(request, client=client) == request


@pytest.mark.parametrize("max_tokens", [2_000, 8_000])
def test_chat_requests_stay_valid(client: contexture.Client, max_tokens: int) -> None:
    messages = repaired([*chat(run(1, 60)), {"role": "user", "content": "And now?"}])
    request: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "system", "content": "Answer briefly."}, *messages],
        "temperature": 0.5,
        "extra_headers": {"x": "y"},
    }
    fitted = contexture.fit(request, max_tokens=max_tokens, client=client)
    assert fitted["temperature"] == 0.5
    assert fitted["extra_headers"] == {"x": "y"}
    assert len(fitted["messages"]) < len(request["messages"])
    assert pairing_errors(fitted["messages"]) == []
    assert fitted["messages"][0] == {"role": "system", "content": "Answer briefly."}


def test_anthropic_requests_stay_valid(client: contexture.Client) -> None:
    messages: list[Any] = []
    for at in range(60):
        messages.append({"role": "user", "content": f"Question {at}. " + "word " * 200})
        # As the client returns it.
        answer = anthropic.types.Message.model_validate(
            {
                "id": f"msg_{at}",
                "type": "message",
                "role": "assistant",
                "model": "claude-sonnet-5-5",
                "content": [{"type": "text", "text": f"Answer {at}. " + "word " * 100}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
        )
        messages.append({"role": "assistant", "content": answer.content})
    messages.append({"role": "user", "content": "The last question."})
    request = {"model": "claude-sonnet-5-5", "max_tokens": 500, "messages": messages}
    fitted = contexture.fit(request, max_tokens=6_000, client=client)
    TypeAdapter(list[anthropic.types.MessageParam]).validate_python(
        json.loads(json.dumps(fitted["messages"], default=lambda part: part.model_dump()))
    )
    assert fitted["messages"][0]["role"] == "user"
    assert fitted["messages"][-1]["content"][0]["text"] == "The last question."
    assert fitted["max_tokens"] == 500


def test_a_session_keeps_the_beginning(own_client: contexture.Client) -> None:
    """Between two summaries, each request begins with the one before, for the cache."""
    messages = repaired(list(chat(run(2, 40))))
    before: list[dict[str, Any]] = []
    continued = 0
    for end in range(10, len(messages)):
        if messages[end - 1]["role"] == "assistant":
            continue
        if end < len(messages) and messages[end]["role"] == "tool":
            continue
        request = {"model": MODEL, "messages": messages[:end]}
        fitted = contexture.fit(request, max_tokens=8_000, session="run", client=own_client)
        now = fitted["messages"]
        continued += now[: len(before)] == before
        before = now
    assert continued >= 5


def test_async_fit(shared_server: contexture.LocalServer) -> None:
    async def call() -> dict[str, Any]:
        async with contexture.AsyncClient(server=shared_server) as client:
            request = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
            return await contexture.afit(request, client=client)

    assert asyncio.run(call())["messages"] == [{"role": "user", "content": "hi"}]


def test_what_is_no_json_is_named(client: contexture.Client) -> None:
    request = {"model": MODEL, "messages": [{"role": "user", "content": object()}]}
    with pytest.raises(TypeError, match=r"messages\[0\].content is a object"):
        contexture.fit(request, client=client)
