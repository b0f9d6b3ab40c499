"""Replays recorded agent runs through LangChain, with our middleware and with LangChain's own.

Usage: adapters.py TRACES [--every N] [--budgets 8000,32000] [--json]

TRACES is a directory of runs: `{name, system, tools, calls: [{event, messages}]}`. Before each
model call of a run, the messages so far are given to the middleware, and what it would send is
checked with OpenAI's types and with the rule that every tool call has one result, right after it.
`--every N` checks every Nth call. Printed: requests, invalid requests, tokens sent, the share of
tokens that a provider's prefix cache could serve, and CPU seconds of this process and its server.
A request is over the window if it has more tokens than the window, counted as four bytes each.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import openai.types.chat
from langchain.agents.middleware import ClearToolUsesEdit, SummarizationMiddleware
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.utils import count_tokens_approximately
from langchain_openai.chat_models.base import _convert_message_to_dict
from pydantic import TypeAdapter, ValidationError

import contexture
from contexture._transport import UNSET
from contexture.langchain import fit_messages

SENT = TypeAdapter(list[openai.types.chat.ChatCompletionMessageParam])
MODEL = "gpt-5.6"
Fit = Callable[[list[BaseMessage]], list[BaseMessage]]


def main() -> None:
    parser = argparse.ArgumentParser(description="replay agent runs through LangChain")
    parser.add_argument("traces", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--budgets", default="8000,32000,128000")
    arguments = parser.parse_args()
    print(
        f"{'run':<18} {'window':>7} {'middleware':<16} {'requests':>8} {'invalid':>8} "
        f"{'refused':>8} {'over':>6} {'tokens':>10} {'cached':>7} {'seconds':>8}"
    )
    with tempfile.TemporaryDirectory() as root, contexture.Client(root=root) as client:
        for path in sorted(arguments.traces.glob("*.json")):
            trace = json.loads(path.read_text("utf-8"))
            for budget in (int(part) for part in arguments.budgets.split(",")):
                for name, fit in (
                    ("contexture", ours(client, budget)),
                    ("with a session", ours(client, budget, f"{path.stem}-{budget}")),
                    ("summarization", theirs(budget)),
                    ("context editing", editing(budget)),
                ):
                    row = replay(trace, fit, client, budget, arguments.every)
                    print(f"{path.stem:<18} {budget:>7} {name:<16} {row}", flush=True)


def ours(client: contexture.Client, budget: int, session: str | None = None) -> Fit:
    def fit(messages: list[BaseMessage]) -> list[BaseMessage]:
        return fit_messages(
            messages, max_tokens=budget, model=MODEL, session=session or UNSET, client=client
        )

    return fit


def theirs(budget: int) -> Fit:
    """LangChain's middleware, with a summary that costs no model call."""
    model = FakeListChatModel(responses=["A summary of the conversation so far. " * 40])
    middleware = SummarizationMiddleware(
        model=model, trigger=("tokens", int(budget * 0.75)), keep=("messages", 20)
    )
    state: list[BaseMessage] = []
    seen = 0

    def fit(messages: list[BaseMessage]) -> list[BaseMessage]:
        nonlocal state, seen
        system = [message for message in messages[:1] if isinstance(message, SystemMessage)]
        # The middleware changes the agent's state, so that new messages follow its result.
        state += messages[max(seen, len(system)) :]
        seen = len(messages)
        for number, message in enumerate(state):
            message.id = message.id or f"m{seen}-{number}"
        update = middleware.before_model({"messages": state}, None)  # type: ignore[typeddict-item, arg-type]
        if update:
            kept = [one for one in update["messages"] if not isinstance(one, RemoveMessage)]
            state = list(kept)
        return [*system, *state]

    return fit


def editing(budget: int) -> Fit:
    """LangChain's middleware that clears older tool results."""
    edit = ClearToolUsesEdit(trigger=int(budget * 0.75), keep=3)

    def count(messages: Sequence[BaseMessage]) -> int:
        return count_tokens_approximately(messages)

    def fit(messages: list[BaseMessage]) -> list[BaseMessage]:
        # The edit changes the list and its messages, which the middleware copies before.
        edited: list[Any] = copy.deepcopy(messages)
        edit.apply(edited, count_tokens=count)
        return edited

    return fit


def replay(
    trace: dict[str, Any], fit: Fit, client: contexture.Client, budget: int, every: int
) -> str:
    requests = invalid = refused = over = total = cached = 0
    before: list[str] = []
    start = cpu(client)
    for number, messages in enumerate(prompts(trace)):
        if number % every:
            continue
        requests += 1
        try:
            sent = fit(list(messages))
        except contexture.ApiError as error:
            refused += 1
            if refused == 1:
                print(f"  refused: {error}", file=sys.stderr)
            continue
        bodies = [_convert_message_to_dict(message) for message in sent]
        invalid += not is_valid(bodies)
        texts = [json.dumps(body, sort_keys=True) for body in bodies]
        sizes = [max(1, len(text) // 4) for text in texts]
        same = 0
        while same < min(len(texts), len(before)) and texts[same] == before[same]:
            same += 1
        total += sum(sizes)
        over += sum(sizes) > budget
        cached += sum(sizes[:same])
        before = texts
    share = 100 * cached / total if total else 0.0
    return (
        f"{requests:>8} {invalid:>8} {refused:>8} {over:>6} {total:>10} {share:>6.1f}% "
        f"{cpu(client) - start:>8.2f}"
    )


def cpu(client: contexture.Client) -> float:
    """Returns the CPU seconds of this process and of the server."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    pid = client.server.pid if client.server else None
    used = own.ru_utime + own.ru_stime
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rsplit(")", 1)[1].split()
        return used + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return used


def prompts(trace: dict[str, Any]) -> Iterator[list[BaseMessage]]:
    """Returns the messages before each model call."""
    system = trace["system"]
    messages: list[BaseMessage] = [SystemMessage(system)] if isinstance(system, str) else []
    for call in trace["calls"]:
        messages += [HumanMessage(text) for text in call["event"]]
        if not isinstance(messages[-1], AIMessage):
            yield messages
        messages += [as_message(message) for message in call["messages"]]


def as_message(message: dict[str, Any]) -> BaseMessage:
    content = message["content"]
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    text = "".join(block.get("text", "") for block in blocks)
    if message["role"] == "tool":
        return ToolMessage(text, tool_call_id=message["tool_call_id"])
    if message["role"] == "user":
        return HumanMessage(text)
    calls = [
        {"id": block["id"], "name": block["name"], "args": block["arguments"]}
        for block in blocks
        if block["type"] == "tool_call"
    ]
    return AIMessage(content=text, tool_calls=calls)


def is_valid(bodies: list[dict[str, Any]]) -> bool:
    try:
        SENT.validate_python(json.loads(json.dumps(bodies)))
    except ValidationError:
        return False
    waiting: set[str] = set()
    for body in bodies:
        if body["role"] == "tool":
            if body["tool_call_id"] not in waiting:
                return False
            waiting.discard(body["tool_call_id"])
            continue
        if waiting:
            return False
        waiting = {call["id"] for call in body.get("tool_calls") or ()}
    return not waiting and bodies[-1]["role"] in ("user", "tool")


if __name__ == "__main__":
    main()
