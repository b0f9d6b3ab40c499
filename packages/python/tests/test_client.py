"""The clients: calls, errors, and the server that they start."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import contexture
from contexture import models


def test_a_first_answer_takes_few_lines(own_client: contexture.Client) -> None:
    own_client.record_text(source="notes", text="The dog is called Rufus.")
    found = own_client.recall(query="What is the dog called?", max_tokens=500)
    assert "Rufus" in found.content


def test_a_conversation_is_recorded_and_assembled(own_client: contexture.Client) -> None:
    own_client.create_session(label="support")
    turn = own_client.record_turn(
        "support",
        models.NewTurn(
            messages=[
                models.Message(role="user", content="Why does the build fail?"),
                models.Message(role="assistant", content="foo is never linked."),
            ]
        ),
        idempotency_key="answer-1",
    )
    assert (turn.number, turn.replayed) == (1, False)
    history = own_client.get_history("support")
    assert [message.role for message in history.turns[0].messages] == ["user", "assistant"]
    request = own_client.assemble(
        recipe="broker", session="support", event="And now?", model="gpt-5.6", format="openai-chat"
    )
    assert isinstance(request, models.RenderedRequest)
    assert isinstance(request.request, dict)
    assert "foo is never linked." in str(request.request["messages"])
    own = own_client.assemble(recipe="broker", session="support", event="And now?", model="gpt-5.6")
    assert isinstance(own, models.Assembled)
    assert own.session_label == "support"


def test_null_and_absent_are_different(own_client: contexture.Client) -> None:
    own_client.create_session(label="s")
    message = {"role": "user", "content": "hello"}
    own_client.record_turn("s", {"messages": [message], "parent_turn_id": None})
    with pytest.raises(contexture.ApiError) as caught:
        own_client.record_turn("s", {"messages": [message], "parent_turn_id": None})
    assert (caught.value.status, caught.value.code) == (409, "conflict")


def test_errors_name_the_field_and_what_to_do(client: contexture.Client) -> None:
    with pytest.raises(contexture.ApiError) as caught:
        client.recall(query="x", max_tokens=-1)
    assert caught.value.field == "max_tokens"
    assert "max_tokens: must be at least" in str(caught.value)
    with pytest.raises(contexture.ApiError, match="GET /v1/sessions") as caught:
        client.get_session("nobody/else")
    assert caught.value.status == 404
    assert caught.value.request_id


def test_names_are_escaped(own_client: contexture.Client) -> None:
    label = "a b/ü?#%"
    own_client.create_session(label=label)
    assert own_client.get_session(label).label == label


def test_memory_is_exported_as_a_stream(own_client: contexture.Client) -> None:
    records = [{"kind": "event", "id": f"e{at}", "content": f"event {at}"} for at in range(50)]
    own_client.record_memory(records=records)
    assert len(list(own_client.export_memory())) == 50


def test_the_local_server_stops_with_the_client(tmp_path: Path) -> None:
    client = contexture.Client(root=tmp_path)
    assert client.server is not None
    assert client.server.pid is None, "it starts with the first call"
    client.list_sessions()
    assert client.server.is_running()
    client.close()
    assert not client.server.is_running()
    # A closed client starts it again.
    client.list_sessions()
    client.close()


def test_async_calls(tmp_path: Path) -> None:
    async def calls() -> None:
        async with contexture.AsyncClient(root=tmp_path) as client:
            await client.create_session(label="a")
            listed = await asyncio.gather(*(client.list_sessions() for _ in range(10)))
            assert all(len(answer.sessions) == 1 for answer in listed)
            await client.record_memory(records=[{"kind": "event", "id": "e", "content": "x"}])
            assert [record["id"] async for record in client.export_memory()] == ["e"]
            with pytest.raises(contexture.ApiError):
                await client.get_session("nobody")

    asyncio.run(calls())


def test_events_of_a_session_arrive(own_client: contexture.Client) -> None:
    own_client.create_session(label="s")
    events = own_client.listen_to_session("s")

    async def record() -> None:
        async with contexture.AsyncClient(server=own_client.server) as writer:
            await asyncio.sleep(0.3)
            await writer.record_turn("s", {"messages": [{"role": "user", "content": "x"}]})

    import threading

    thread = threading.Thread(target=lambda: asyncio.run(record()))
    thread.start()
    assert next(events)["type"] == "turn_recorded"
    thread.join()


def test_the_address_can_come_from_the_environment(
    shared_server: contexture.LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTEXTURE_URL", shared_server.url())
    with contexture.Client() as client:
        assert client.server is None
        assert client.list_recipes().recipes
