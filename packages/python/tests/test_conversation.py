"""What adapters give back: the right call beside each result, whole results, images, secrets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, ModelSettings, OpenAIResponsesModel, function_tool
from agents.memory.session_settings import SessionSettings
from agents.run import CallModelData, ModelInputData
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from llama_index.core.base.llms.types import ChatMessage
from openai import AsyncOpenAI
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import (
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from test_langchain import StandIn

import contexture
from contexture._conversation import SUMMARY
from contexture.errors import SessionWarning
from contexture.langchain import ContextureMiddleware, fit_messages
from contexture.llama_index import ContextureMemoryBlock
from contexture.openai_agents import ContextureSession, fit_input
from contexture.pydantic_ai import fit_history

SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)


def fitted(client: contexture.Client, messages: list[BaseMessage], size: int) -> list[Any]:
    return list(fit_messages(messages, max_tokens=size, model="gpt-5.6", client=client))


def talk(count: int) -> list[BaseMessage]:
    messages: list[BaseMessage] = []
    for at in range(count):
        messages += [HumanMessage(f"q{at} " + "word " * 80), AIMessage(f"a{at} " + "word " * 80)]
    return messages


def test_repeated_ids(client: contexture.Client) -> None:
    messages: list[BaseMessage] = [HumanMessage("Read.")]
    for at in range(60):
        call = {"id": "call_0", "name": "read", "args": {"path": f"f{at}"}}
        messages.append(AIMessage("", tool_calls=[call]))
        messages.append(ToolMessage(f"file {at} " + "word " * 150, tool_call_id="call_0"))
    shown = fitted(client, messages, 6_000)
    assert len(shown) < 60
    # What was kept are the last messages, each the very object.
    assert all(a is b for a, b in zip(shown[1:], messages[1 - len(shown) :], strict=True))


def test_a_late_result_is_moved_to_its_call(client: contexture.Client) -> None:
    call = {"id": "c1", "name": "book", "args": {}}
    messages: list[BaseMessage] = [
        HumanMessage("Book it."),
        AIMessage("", tool_calls=[call]),
        HumanMessage("And hurry."),
        ToolMessage("booked: 4711", tool_call_id="c1"),
        HumanMessage("The number?"),
    ]
    shown = fitted(client, messages, 8_000)
    assert shown == [messages[at] for at in (0, 1, 3, 2, 4)]


def test_secrets_of_calls_are_masked(client: contexture.Client) -> None:
    content: Any = [
        {"type": "text", "text": f"key {SECRET}"},
        {"type": "tool_use", "id": "c1", "name": "x", "input": {"k": SECRET}},
    ]
    answer = AIMessage(
        content, id="a", tool_calls=[{"id": "c1", "name": "x", "args": {"k": SECRET}}]
    )
    picture: Any = [{"type": "text", "text": f"see {SECRET}"}, image(PIXEL)]
    messages = [HumanMessage(picture, id="h"), answer, ToolMessage(SECRET, tool_call_id="c1")]
    shown = fitted(client, messages, 8_000)
    assert SECRET not in str(shown)
    assert [message.id for message in shown] == ["h", "a", None]
    assert shown[0].content[1] == image(PIXEL)
    assert shown[1].content[1]["input"] == shown[1].tool_calls[0]["args"]


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def test_images_stay_with_their_messages(client: contexture.Client) -> None:
    messages: list[BaseMessage] = []
    for at in range(40):
        parts: Any = [{"type": "text", "text": "What is this?"}, image(f"https://e.com/{at}.png")]
        messages += [HumanMessage(parts, id=f"h{at}"), AIMessage(f"a{at} " + "word " * 80)]
    block = {"type": "image", "base64": PIXEL.split(",")[1], "mime_type": "image/png"}
    last: Any = [{"type": "text", "text": "And this?"}, block]
    messages.append(HumanMessage(last))
    for size in (3_000, 8_000):
        shown = fitted(client, messages, size)
        assert len(shown) < len(messages)
        assert shown[-1] is messages[-1]
        kept = [message for message in shown if message.content and SUMMARY not in message.text]
        assert all(a is b for a, b in zip(kept[::-1], messages[::-1], strict=False))


def test_tools_of_providers(client: contexture.Client) -> None:
    tools: list[Any] = [{"type": "web_search_20250305", "name": "web_search"}, {"url_context": {}}]
    tools += [{"type": "mcp", "server_label": "x"}, {"cachePoint": {"type": "default"}}]
    middleware = ContextureMiddleware(max_tokens=8_000, client=client)
    agent = create_agent(StandIn(reads=0), tools, middleware=[middleware])
    state = agent.invoke({"messages": [HumanMessage("Hi.")]})
    assert state["messages"][-1].text == "All files are read."


def test_an_edited_conversation_continues_in_another_session(
    own_client: contexture.Client,
) -> None:
    agent = create_agent(
        StandIn(reads=0), [], middleware=[ContextureMiddleware(session="s", client=own_client)]
    )
    agent.invoke({"messages": [HumanMessage("One.")]})
    with pytest.warns(SessionWarning, match="'s~2'"):
        state = agent.invoke(
            {"messages": [HumanMessage("Other."), AIMessage("0"), HumanMessage("?")]}
        )
    described = state["messages"][-1].response_metadata["contexture"]
    assert described["session"] == "s~2"
    assert any("does not continue" in warning for warning in described["warnings"])
    agent.invoke({"messages": [*state["messages"], HumanMessage("Go on.")]})
    assert own_client.get_history("s").total == 2
    assert own_client.get_history("s~2").total > 2


def test_an_answer_that_cannot_be_recorded_is_returned(tmp_path: Path) -> None:
    class Unrecorded(contexture.Client):
        def record_turn(self, *args: Any, **kwargs: Any) -> Any:
            raise contexture.ServerUnavailableError("gone")

    with Unrecorded(root=tmp_path) as client:
        middleware = ContextureMiddleware(session="s", client=client)
        agent = create_agent(StandIn(reads=0), [], middleware=[middleware])
        with pytest.warns(SessionWarning, match="gone"):
            state = agent.invoke({"messages": [HumanMessage("Hi.")]})
        assert state["messages"][-1].text == "All files are read."
        assert "gone" in state["messages"][-1].response_metadata["contexture"]["warnings"][-1]


@pytest.mark.parametrize("session", [None, "s"])
def test_pydantic_ai_never_summarises_a_summary(tmp_path: Path, session: str | None) -> None:
    sent: list[list[ModelMessage]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        sent.append(list(messages))
        if len(sent) % 10:
            return ModelResponse(parts=[ToolCallPart("read", {"p": len(sent)}, f"c{len(sent)}")])
        return ModelResponse(parts=[TextPart(f"Done {len(sent)}.")])

    async def go() -> None:
        async with contexture.AsyncClient(root=tmp_path) as client:
            options: Any = {"session": session} if session else {}
            process = fit_history(max_tokens=4_000, model="gpt-5.6", client=client, **options)
            agent = PydanticAgent(FunctionModel(answer), capabilities=[ProcessHistory(process)])

            @agent.tool_plain
            def read(p: int) -> str:
                return f"content {p} " + "word " * 300

            history: list[ModelMessage] | None = None
            for turn in range(3):
                result = await agent.run(f"Turn {turn}.", message_history=history)
                history = result.all_messages()

    asyncio.run(go())
    texts = [part.content for part in sent[-1][0].parts if isinstance(part, UserPromptPart)]
    assert str(texts[0]).startswith(SUMMARY)
    assert "Turn 0." in str(texts[0])
    assert str(sent[-1]).count(SUMMARY) == 1


def test_pydantic_ai_counts_instructions_and_keeps_images(
    shared_server: contexture.LocalServer,
) -> None:
    async def go() -> None:
        async with contexture.AsyncClient(server=shared_server) as client:
            process = fit_history(max_tokens=6_000, model="gpt-5.6", client=client)
            picture = UserPromptPart([f"see {SECRET}", ImageUrl("https://e.com/a.png")])
            shown: list[Any] = await process([ModelRequest(parts=[picture])])
            content = shown[0].parts[0].content
            assert SECRET not in str(content)
            assert content[1] == picture.content[1]
            history: list[ModelMessage] = []
            for at in range(20):
                history.append(ModelRequest(parts=[UserPromptPart(f"q{at} " + "word " * 80)]))
                history.append(ModelResponse(parts=[TextPart(f"a{at} " + "word " * 80)]))
            history.append(ModelRequest(parts=[UserPromptPart("?")]))
            assert len(await process(history)) == len(history)
            history[-1] = ModelRequest(parts=[UserPromptPart("?")], instructions="word " * 2_500)
            assert len(await process(history)) < len(history)
            late = ModelRequest(parts=[UserPromptPart("go on"), ToolReturnPart("t", "r1", "c1")])
            calls = ModelResponse(parts=[ToolCallPart("t", {}, "c1")])
            shown = await process([ModelRequest(parts=[UserPromptPart("go")]), calls, late])
            last: Any = shown[-1]
            assert [part.content for part in last.parts] == ["r1", "go on"]

    asyncio.run(go())


def test_a_session_of_openai_agents_under_concurrency(tmp_path: Path) -> None:
    async def go() -> None:
        async with contexture.AsyncClient(root=tmp_path) as client:
            session = ContextureSession("s", client=client)

            async def add(at: int) -> None:
                await session.add_items([{"role": "user", "content": f"m{at}"}])

            await asyncio.gather(*[add(at) for at in range(20)])
            assert len(await session.get_items()) == 20
            session.session_settings = SessionSettings(limit=2)
            assert len(await session.get_items()) == 2
            popped: list[Any] = await asyncio.gather(*[session.pop_item() for _ in range(8)])
            assert len({item["content"] for item in popped}) == 8
            # Large items do not make later calls larger.
            large: Any = {"role": "user", "content": "A" * 700_000}
            for _ in range(30):
                await session.add_items([large])
            assert len(await session.get_items(limit=100)) == 42

    asyncio.run(go())


def test_openai_agents_count_tools_and_know_models(shared_server: contexture.LocalServer) -> None:
    def read(path: str) -> str:
        return path

    async def go() -> None:
        async with contexture.AsyncClient(server=shared_server) as client:
            items: list[Any] = []
            for at in range(20):
                items += [{"role": "user", "content": f"q{at} " + "word " * 80}]
                items += [{"role": "assistant", "content": f"a{at} " + "word " * 80}]
            items.append({"role": "user", "content": "?"})

            async def sent(agent: Agent[Any], size: int) -> int:
                given = ModelInputData(input=items, instructions="Be brief.")
                data = CallModelData(model_data=given, agent=agent, context=None)
                shown = await fit_input(max_tokens=size, client=client)(data)
                return len(shown.input)

            tool = function_tool(read, description_override="A tool. " * 800)
            settings = ModelSettings()
            assert await sent(Agent(name="a", model="gpt-5.6"), 6_000) == 41
            assert await sent(Agent(name="a", model="gpt-5.6", tools=[tool]), 6_000) < 41
            model = OpenAIResponsesModel("gpt-4o-mini", AsyncOpenAI(api_key="x"))
            agent = Agent(name="a", model=model, model_settings=settings)
            assert await sent(agent, 6_000) == 41

    asyncio.run(go())


def test_llama_index_sessions_are_separate(tmp_path: Path) -> None:
    async def go() -> None:
        async with contexture.AsyncClient(root=tmp_path) as client:
            block = ContextureMemoryBlock(client=client)
            said = ChatMessage(role="user", content="My bank PIN is 4711, says Alice of Oslo.")
            said.additional_kwargs["session_id"] = "alice"
            await block.aput([said])
            await client.record_text(source="notes", text="The bank PIN of the office is 9999.")
            asked = [ChatMessage(role="user", content="What is the bank PIN of Alice?")]
            assert await block.aget(asked, session_id="bob") == ""
            found = await block.aget(asked, session_id="alice")
            assert "4711" in found
            assert "9999" not in found
            both = ContextureMemoryBlock(client=client, user="ann")
            await both.aput([said])
            assert "4711" in await both.aget(asked, session_id="other")

    asyncio.run(go())
