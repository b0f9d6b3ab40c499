"""LangChain's agents and LangGraph's store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import openai.types.chat
import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langchain_openai.chat_models.base import _convert_message_to_dict
from langgraph.store.memory import InMemoryStore
from pydantic import PrivateAttr, TypeAdapter
from traces import Step, pairing_errors, run

import contexture
from contexture.langchain import ContextureMiddleware, fit_messages
from contexture.langgraph import ContextureStore

SENT = TypeAdapter(list[openai.types.chat.ChatCompletionMessageParam])


@tool
def read_file(path: str) -> str:
    """Reads a file."""
    return f"# {path}\n" + "\n".join(f"line {at}: value = {at}" for at in range(200))


class StandIn(BaseChatModel):
    """A model that reads a file several times and then answers. It keeps what it was sent."""

    model_name: str = "gpt-5.6"
    reads: int = 12
    _sent: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "stand-in"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self._sent.append(messages)
        number = len(self._sent)
        message = AIMessage(
            content="All files are read.",
            usage_metadata=UsageMetadata(input_tokens=100, output_tokens=10, total_tokens=110),
        )
        if number <= self.reads:
            call = {"id": f"c{number}", "name": "read_file", "args": {"path": f"{number}.py"}}
            message = AIMessage(content="", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


def check_sent(messages: list[BaseMessage]) -> None:
    """Checks messages as OpenAI's client and API do."""
    sent = [_convert_message_to_dict(message) for message in messages]
    SENT.validate_python(json.loads(json.dumps(sent)))
    assert pairing_errors(sent) == []


def test_an_agent_keeps_within_its_window(client: contexture.Client) -> None:
    model = StandIn()
    middleware = ContextureMiddleware(max_tokens=8_000, client=client)
    agent = create_agent(model, [read_file], system_prompt="Be brief.", middleware=[middleware])
    result = agent.invoke({"messages": [HumanMessage("Read all files.")]})
    assert len(model._sent) == 13
    for messages in model._sent:
        check_sent(messages)
        assert messages[0] == SystemMessage("Be brief.")
    # The state keeps everything, the model sees less.
    assert len(result["messages"]) == 1 + 2 * 12 + 1
    assert len(model._sent[-1]) < 20
    described = result["messages"][-1].response_metadata["contexture"]
    assert described["changed"] is True
    assert 0 < described["tokens"] <= 8_000
    assert result["messages"][1].response_metadata["contexture"]["changed"] is False


def test_a_session_records_the_run(own_client: contexture.Client) -> None:
    model = StandIn(reads=3)
    middleware = ContextureMiddleware(session="thread-1", client=own_client)
    agent = create_agent(model, [read_file], middleware=[middleware])
    state = agent.invoke({"messages": [HumanMessage("Read all files.")]})
    history = own_client.get_history("thread-1")
    roles = [message.role for turn in history.turns for message in turn.messages]
    assert roles == ["user", *["assistant", "tool"] * 3, "assistant"]
    assert history.turns[-1].usage is not None
    assert history.turns[-1].usage.input_tokens == 100
    # The next run of the same thread goes on.
    agent.invoke({"messages": [*state["messages"], HumanMessage("Thanks!")]})
    assert own_client.get_history("thread-1").total > history.total


def test_a_conversation_that_was_edited_is_still_answered(own_client: contexture.Client) -> None:
    model = StandIn(reads=0)
    middleware = ContextureMiddleware(session="thread-1", client=own_client)
    agent = create_agent(model, [], middleware=[middleware])
    agent.invoke({"messages": [HumanMessage("One."), AIMessage("1"), HumanMessage("Two.")]})
    state = agent.invoke({"messages": [HumanMessage("Other."), AIMessage("0"), HumanMessage("?")]})
    assert state["messages"][-1].text == "All files are read."


def test_async_agents(shared_server: contexture.LocalServer) -> None:
    async def go() -> None:
        async with contexture.AsyncClient(server=shared_server) as client:
            model = StandIn()
            middleware = ContextureMiddleware(max_tokens=8_000, async_client=client)
            agent = create_agent(model, [read_file], middleware=[middleware])
            await agent.ainvoke({"messages": [HumanMessage("Read all files.")]})
            for messages in model._sent:
                check_sent(messages)

    asyncio.run(go())


def as_messages(steps: list[Step]) -> list[BaseMessage]:
    messages: list[BaseMessage] = []
    for step in steps:
        messages += [HumanMessage(text) for text in step.user]
        calls = [{"id": call, "name": name, "args": args} for call, name, args in step.calls]
        # Content blocks that only the provider understands.
        content: Any = [{"type": "thinking", "thinking": "…", "signature": "sig"}]
        content.append({"type": "text", "text": step.text or "."})
        messages.append(AIMessage(content=content, tool_calls=calls))
        messages += [ToolMessage(text, tool_call_id=call) for call, text in step.results.items()]
    return messages


@pytest.mark.parametrize("max_tokens", [2_000, 8_000, 32_000])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_request_is_valid(client: contexture.Client, seed: int, max_tokens: int) -> None:
    messages = as_messages(run(seed, 80))
    for end in range(1, len(messages), 17):
        shown: list[BaseMessage] = [SystemMessage("Be brief."), *messages[:end], HumanMessage("?")]
        fitted = fit_messages(shown, max_tokens=max_tokens, model="gpt-5.6", client=client)
        check_sent(fitted)
        assert fitted[0] is shown[0]
        # Messages of the user that follow each other may be joined.
        assert isinstance(fitted[-1], HumanMessage)
        assert fitted[-1].text.endswith("?")
        # What was kept is the very object, with its signed reasoning.
        own = {id(message) for message in shown}
        kept = [message for message in fitted if isinstance(message, AIMessage)]
        assert all(id(message) in own for message in kept)


def test_a_store_keeps_finds_and_forgets(own_client: contexture.Client) -> None:
    store = ContextureStore(own_client)
    store.put(("users", "ann"), "dog", {"text": "The dog is called Rufus.", "age": 4})
    store.put(("users", "ann"), "car", {"text": "The car is red.", "age": 9})
    store.put(("users", "bob/#"), "k%", {"text": "Bob likes tea."})
    item = store.get(("users", "ann"), "dog")
    assert item is not None
    assert item.value == {"text": "The dog is called Rufus.", "age": 4}
    found = store.search(("users", "ann"), query="name of the pet dog", limit=1)
    assert [item.key for item in found] == ["dog"]
    assert found[0].score is not None
    assert [item.key for item in store.search(("users",), filter={"age": {"$gt": 5}})] == ["car"]
    assert store.list_namespaces(prefix=("users",)) == [("users", "ann"), ("users", "bob/#")]
    assert store.list_namespaces(max_depth=1) == [("users",)]
    created = item.created_at
    store.put(("users", "ann"), "dog", {"text": "The dog is called Max."})
    again = store.get(("users", "ann"), "dog")
    assert again is not None
    assert again.created_at == created
    assert again.value["text"] == "The dog is called Max."
    store.delete(("users", "ann"), "dog")
    assert store.get(("users", "ann"), "dog") is None
    assert store.get(("users", "bob/#"), "k%") is not None


def test_an_async_store(own_client: contexture.Client) -> None:
    async def go() -> None:
        store = ContextureStore(own_client)
        await store.aput(("a",), "k", {"x": 1})
        item = await store.aget(("a",), "k")
        assert item is not None
        assert item.value == {"x": 1}

    asyncio.run(go())


def test_a_store_answers_as_the_reference_does(own_client: contexture.Client) -> None:
    stores: list[Any] = [InMemoryStore(), ContextureStore(own_client)]
    found = []
    for store in stores:
        store.put(("a",), "k3", {"n": {"p": 1, "q": [1, 2]}})
        store.put(("a",), "k1", {"n": {"p": 2}, "big": 2**70})
        store.put(("a",), "日本語のとても長いキー" * 8, {"text": "long " * 4_000})
        store.put(("a",), "k2", {"text": "apple"}, index=False)
        store.put(("a",), "k3", {"n": {"p": 1, "q": [1, 2]}, "new": True})
        queried = store.search(("a",), query="apple", limit=10)
        found.append(
            [
                [item.key for item in store.search(("a",), limit=10)],
                [item.key for item in store.search(("a",), filter={"n": {"p": 1}})],
                [item.key for item in store.search(("a",), filter={"n": {"q": [1, 3]}})],
                [item.key for item in store.search(("a",), filter={"n": {"p": {"$gte": 2}}})]
                if isinstance(store, ContextureStore)
                else ["k1"],
                sorted(item.key for item in queried),
                store.get(("a",), "k1").value,
                store.list_namespaces(),
            ]
        )
    assert found[0] == found[1]
