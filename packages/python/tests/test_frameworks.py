"""OpenAI Agents, Pydantic AI, LlamaIndex and Anthropic's memory tool."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import anthropic.types.beta as beta
import pytest
from agents import Agent, ModelResponse, ModelSettings, RunConfig, Runner, function_tool
from agents.mcp import MCPServer
from agents.models.interface import Model
from agents.run import CallModelData, ModelInputData
from agents.usage import Usage
from anthropic.lib.tools import ToolError
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory
from mcp.types import Tool as McpTool
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseInputItemParam,
    ResponseOutputMessage,
    ResponseOutputText,
)
from pydantic import BaseModel, TypeAdapter
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.messages import (
    ModelResponse as PydanticResponse,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from traces import Step, pairing_errors, run

import contexture
from contexture.anthropic_memory import ContextureMemoryTool
from contexture.llama_index import ContextureMemoryBlock
from contexture.openai_agents import ContextureSession, fit_input
from contexture.pydantic_ai import encoded, fit_history, joined

INPUT = TypeAdapter(list[ResponseInputItemParam])


class StandIn(Model):
    """A model that calls a tool several times and then answers. It keeps what it was sent."""

    def __init__(self, calls: int) -> None:
        self.calls = calls
        self.sent: list[list[Any]] = []

    async def get_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002
        *rest: Any,
        **more: Any,
    ) -> Any:
        self.sent.append(input)
        number = len(self.sent)
        output: Any = ResponseOutputMessage(
            id=f"m{number}",
            type="message",
            role="assistant",
            status="completed",
            content=[ResponseOutputText(type="output_text", text="Done.", annotations=[])],
        )
        if number <= self.calls:
            output = ResponseFunctionToolCall(
                id=f"f{number}",
                type="function_call",
                call_id=f"c{number}",
                name="read_file",
                arguments=json.dumps({"path": f"{number}.py"}),
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


@function_tool
def read_file(path: str) -> str:
    """Reads a file."""
    return f"# {path}\n" + "\n".join(f"line {at}: value = {at}" for at in range(200))


def check_input(items: list[Any]) -> None:
    """Checks items as OpenAI's client and API do."""
    INPUT.validate_python(items)
    calls: set[str] = set()
    done: set[str] = set()
    for item in items:
        if item.get("type") == "function_call":
            calls.add(item["call_id"])
        if item.get("type") == "function_call_output":
            assert item["call_id"] in calls, "an output without a call before it"
            done.add(item["call_id"])
    assert calls == done


def test_openai_agents(tmp_path: Path) -> None:
    async def go() -> None:
        async with contexture.AsyncClient(root=tmp_path) as client:
            model = StandIn(12)
            agent = Agent(name="reader", model=model, tools=[read_file], instructions="Be brief.")
            session = ContextureSession("user/42", client=client)
            config = RunConfig(
                call_model_input_filter=fit_input(max_tokens=8_000, client=client),
                tracing_disabled=True,
                model_settings=ModelSettings(),
            )
            result = await Runner.run(
                agent, "Read all.", session=session, run_config=config, max_turns=20
            )
            assert result.final_output == "Done."
            for items in model.sent:
                check_input(items)
            assert len(model.sent[-1]) < 20
            # The session keeps everything.
            assert len(await session.get_items()) == 1 + 2 * 12 + 1
            await Runner.run(agent, "Thanks!", session=session, run_config=config)
            assert len(await session.get_items()) == 1 + 2 * 12 + 1 + 2
            assert len(await session.get_items(limit=3)) == 3
            last = await session.pop_item()
            assert last is not None
            assert cast("dict[str, Any]", last)["role"] == "assistant"
            other = ContextureSession("user/43", client=client)
            assert await other.get_items() == []
            assert (await client.recall(query="Read all.", max_tokens=1000)).content == ""
            await session.clear_session()
            assert await session.get_items() == []
            assert await session.pop_item() is None

    asyncio.run(go())


def test_a_session_of_many_items(tmp_path: Path) -> None:
    async def go() -> None:
        async with contexture.AsyncClient(root=tmp_path) as client:
            session = ContextureSession("s", client=client)
            items: list[Any] = [{"role": "user", "content": f"message {at}"} for at in range(100)]
            await session.add_items(items[:70])
            await session.add_items(items[70:])
            assert await session.get_items() == items
            for _ in range(40):
                await session.pop_item()
            assert await session.get_items() == items[:60]

    asyncio.run(go())


def as_items(steps: list[Step]) -> list[Any]:
    items: list[Any] = []
    for step in steps:
        items += [{"role": "user", "content": text} for text in step.user]
        if step.text:
            items.append({"role": "assistant", "content": step.text})
        for call, name, arguments in step.calls:
            items.append(
                {
                    "type": "function_call",
                    "call_id": call,
                    "name": name,
                    "arguments": json.dumps(arguments),
                }
            )
        for call, text in step.results.items():
            items.append({"type": "function_call_output", "call_id": call, "output": text})
    return items


@pytest.mark.parametrize("max_tokens", [2_000, 8_000, 32_000])
def test_every_input_is_valid(shared_server: contexture.LocalServer, max_tokens: int) -> None:
    async def go() -> None:
        async with contexture.AsyncClient(server=shared_server) as client:
            filter_input = fit_input(max_tokens=max_tokens, client=client)
            agent = Agent(name="a", model="gpt-5.6")
            items = as_items(run(5, 60))
            for end in range(1, len(items), 17):
                data: Any = type("Data", (), {})()
                data.agent = agent
                data.model_data = type("Given", (), {})()
                data.model_data.input = [*items[:end], {"role": "user", "content": "?"}]
                data.model_data.instructions = "Be brief."
                fitted = await filter_input(data)
                check_input(list(fitted.input))

    asyncio.run(go())


class Harbour(BaseModel):
    """A harbour with its piers."""

    piers: list[str]


class ToolServer(MCPServer):
    """An MCP server with one tool. It counts how often its tools are listed."""

    listed = 0

    @property
    def name(self) -> str:
        return "tides"

    async def connect(self) -> None:
        pass

    async def cleanup(self) -> None:
        pass

    async def list_tools(self, *args: Any, **kwargs: Any) -> list[Any]:
        self.listed += 1
        schema = {"type": "object", "properties": {"place": {"type": "string"}}}
        return [McpTool(name="tide", description="Returns the tide.", input_schema=schema)]

    async def call_tool(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def list_prompts(self) -> Any:
        raise NotImplementedError

    async def get_prompt(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def test_tools_of_mcp_servers_and_the_output_schema_are_counted() -> None:
    sent: list[Any] = []

    class Recorder:
        async def fit(self, **given: Any) -> Any:
            sent.append(given["request"])
            return type("Answer", (), {"changed": False})()

    async def go() -> None:
        server = ToolServer()
        agent = Agent(
            name="a",
            model="gpt-5.6",
            tools=[read_file],
            mcp_servers=[server],
            output_type=Harbour,
        )
        filter_input = fit_input(client=cast("contexture.AsyncClient", Recorder()))
        data = CallModelData(
            model_data=ModelInputData(input=[{"role": "user", "content": "?"}], instructions=None),
            agent=agent,
            context=None,
        )
        await filter_input(data)
        await filter_input(data)
        assert server.listed == 1

    asyncio.run(go())
    tools = {tool["name"]: tool for tool in sent[0]["tools"]}
    assert list(tools) == ["read_file", "tide", "final_output"]
    assert "place" in json.dumps(tools["tide"]["parameters"])
    assert "piers" in json.dumps(tools["final_output"]["parameters"])
    assert sent[0] == sent[1]


def test_pydantic_ai(shared_server: contexture.LocalServer) -> None:
    sent: list[list[ModelMessage]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> PydanticResponse:
        sent.append(list(messages))
        if len(sent) <= 12:
            call = ToolCallPart("read_file", {"path": f"{len(sent)}.py"}, f"c{len(sent)}")
            return PydanticResponse(parts=[call])
        return PydanticResponse(parts=[TextPart("Done.")])

    async def go() -> None:
        async with contexture.AsyncClient(server=shared_server) as client:
            process = fit_history(max_tokens=8_000, model="gpt-5.6", client=client)
            agent = PydanticAgent(FunctionModel(answer), capabilities=[ProcessHistory(process)])

            @agent.tool_plain
            def read_file(path: str) -> str:
                return f"# {path}\n" + "\n".join(f"line {at}: value = {at}" for at in range(200))

            result = await agent.run("Read all files.")
            assert result.output == "Done."

    asyncio.run(go())
    assert len(sent) == 13
    for messages in sent:
        check_pydantic(messages)
    assert len(sent[-1]) < 20


def check_pydantic(messages: list[ModelMessage]) -> None:
    """Checks messages as the framework and OpenAI's API do."""
    ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(messages))
    assert pairing_errors([unit.chat for unit in encoded(messages)]) == []
    kinds = [type(message) for message in messages]
    pairs = list(itertools.pairwise(kinds))
    assert (ModelRequest, ModelRequest) not in pairs


@pytest.mark.parametrize("max_tokens", [2_000, 8_000, 32_000])
def test_every_history_is_valid(shared_server: contexture.LocalServer, max_tokens: int) -> None:
    messages: list[ModelMessage] = []
    for step in run(6, 60):
        messages += [ModelRequest(parts=[UserPromptPart(text)]) for text in step.user]
        parts: list[Any] = [TextPart(step.text)] if step.text else []
        parts += [ToolCallPart(name, args, call) for call, name, args in step.calls]
        messages.append(PydanticResponse(parts=parts))
        returned = [ToolReturnPart("read_file", text, call) for call, text in step.results.items()]
        if returned:
            messages.append(ModelRequest(parts=returned))

    async def go() -> None:
        async with contexture.AsyncClient(server=shared_server) as client:
            process = fit_history(max_tokens=max_tokens, model="gpt-5.6", client=client)
            for end in range(1, len(messages), 15):
                asked = [*messages[:end], ModelRequest(parts=[UserPromptPart("?")])]
                shown = joined(
                    [unit.message for unit in encoded(asked) if unit.message is not None]
                )
                fitted = await process(shown)
                check_pydantic(fitted)

    asyncio.run(go())


def test_llama_index(tmp_path: Path) -> None:
    async def go() -> None:
        async with contexture.AsyncClient(root=tmp_path) as client:
            block = ContextureMemoryBlock(client=client, max_tokens=300)
            memory = Memory.from_defaults(
                session_id="user-42",
                token_limit=400,
                chat_history_token_ratio=0.2,
                token_flush_size=60,
                memory_blocks=[block],
            )
            await memory.aput(ChatMessage(role="user", content="My dog is called Rufus."))
            await memory.aput(ChatMessage(role="assistant", content="A nice name for a dog."))
            for at in range(30):
                await memory.aput(ChatMessage(role="user", content=f"Message number {at} of many."))
                await memory.aput(ChatMessage(role="assistant", content="I see."))
            await memory.aput(ChatMessage(role="user", content="What is my dog called?"))
            messages = await memory.aget()
            assert any("Rufus" in (message.content or "") for message in messages)
            asked = [ChatMessage(role="user", content="dog?")]
            recalled = await block.aget(asked, session_id="user-42")
            shorter = await block.atruncate(recalled, 5)
            assert shorter is not None
            assert len(shorter) < len(recalled)
            assert await block.atruncate(recalled, 10_000) is None
            assert await block.aget([]) == ""

    asyncio.run(go())


def test_the_memory_tool(own_client: contexture.Client) -> None:
    tool = ContextureMemoryTool(client=own_client)

    def call(**command: Any) -> str:
        return str(tool.call(command))

    assert "/memories" in call(command="view", path="/memories")
    call(command="create", path="/memories/notes.md", file_text="one\ntwo\nthree\n")
    call(command="create", path="/memories/people/ann.md", file_text="Ann's dog is called Rufus.")
    assert call(command="view", path="/memories/notes.md", view_range=[2, 2]).endswith(
        "     2\ttwo"
    )
    call(command="str_replace", path="/memories/notes.md", old_str="two", new_str="2")
    call(command="insert", path="/memories/notes.md", insert_line=1, insert_text="and\n")
    assert call(command="view", path="/memories/notes.md").splitlines()[1:5] == [
        "     1\tone",
        "     2\tand",
        "     3\t2",
        "     4\tthree",
    ]
    listing = call(command="view", path="/memories")
    assert "/memories/people/\n" in listing
    assert "/memories/people/ann.md" in listing
    call(command="rename", old_path="/memories/people", new_path="/memories/friends")
    assert "Rufus" in call(command="view", path="/memories/friends/ann.md")
    # The files are memory: other requests find them.
    assert "Rufus" in own_client.recall(query="Ann's dog", max_tokens=500).content
    call(command="delete", path="/memories/friends")
    for command in (
        {"command": "view", "path": "/memories/friends"},
        {"command": "view", "path": "/etc/passwd"},
        {"command": "view", "path": "/memories/../etc/passwd"},
        {"command": "create", "path": "/memories/notes.md", "file_text": ""},
        {"command": "str_replace", "path": "/memories/notes.md", "old_str": "x", "new_str": ""},
        {"command": "insert", "path": "/memories/notes.md", "insert_line": 99, "insert_text": "x"},
        {"command": "delete", "path": "/memories"},
        {"command": "rename", "old_path": "/memories/no", "new_path": "/memories/yes"},
    ):
        with pytest.raises(ToolError):
            tool.call(command)
    assert tool.to_dict()["type"] == "memory_20250818"
    assert isinstance(tool.to_dict(), dict)
    assert (
        ContextureMemoryTool(name="bob", client=own_client)
        .view(beta.BetaMemoryTool20250818ViewCommand(command="view", path="/memories"))
        .endswith("0B\t/memories")
    )


def test_the_memory_tool_is_like_a_file_system(own_client: contexture.Client) -> None:
    tool = ContextureMemoryTool(client=own_client)
    tool.call({"command": "create", "path": "/memories/a", "file_text": "x\ny\nx\n"})
    tool.call({"command": "create", "path": "/memories/d/.hidden", "file_text": "x"})
    assert "hidden\n" not in str(tool.call({"command": "view", "path": "/memories"}))
    for command, message in (
        ({"command": "create", "path": "/memories/a/b", "file_text": ""}, "not a directory"),
        ({"command": "create", "path": "/memories/d", "file_text": ""}, "already exists"),
        ({"command": "rename", "old_path": "/memories/d", "new_path": "/memories/d/e"}, "itself"),
        ({"command": "rename", "old_path": "/memories/d", "new_path": "/memories/a/e"}, "not a"),
        ({"command": "insert", "path": "/memories/d", "insert_line": 0, "insert_text": ""}, "file"),
        ({"command": "str_replace", "path": "/memories/a", "old_str": "x", "new_str": ""}, "1, 3"),
        ({"command": "view", "path": "/memories/../x"}, "would escape"),
        ({"command": "create", "path": "/memories/" + "a" * 600, "file_text": ""}, "limit"),
    ):
        with pytest.raises(ToolError, match=message):
            tool.call(command)
    # A name is not a path: other users do not see its files.
    other = ContextureMemoryTool(name="default/memories/x", client=own_client)
    other.call({"command": "create", "path": "/memories/planted", "file_text": "x"})
    assert "planted" not in str(tool.call({"command": "view", "path": "/memories"}))
