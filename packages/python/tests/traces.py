"""Agent runs for tests: long conversations with tools.

`bench/adapters.py` uses recorded runs; these are made up, small, and have the same shapes: parallel
calls, long results, interrupted calls, errors and answers without text.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Step:
    """What the user said, what the model answered, and the results of its calls."""

    user: list[str] = field(default_factory=list)
    text: str = ""
    calls: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)


def run(seed: int, steps: int) -> list[Step]:
    """Returns a run, always the same for a seed."""
    chosen = random.Random(seed)
    made: list[Step] = []
    for number in range(steps):
        step = Step()
        if number == 0 or chosen.random() < 0.2:
            step.user.append(f"Request {number}: fix the failing test in module {number % 7}.")
        kind = chosen.random()
        if kind < 0.75:
            for at in range(1 if kind < 0.5 else chosen.randint(2, 5)):
                call = f"call_{seed}_{number}_{at}"
                step.calls.append((call, "read_file", {"path": f"src/module_{number % 7}.py"}))
                lines = chosen.choice([1, 5, 40, 300])
                text = "\n".join(f"line {line}: value = {line * number}" for line in range(lines))
                step.results[call] = "" if chosen.random() < 0.05 else text
            if chosen.random() < 0.5:
                step.text = f"Let me look at module {number % 7}."
            if chosen.random() < 0.06:
                # The user interrupted the calls.
                step.results.pop(step.calls[-1][0])
        else:
            step.text = f"Step {number} is done: the test of module {number % 7} passes. " * 4
        made.append(step)
    return made


def chat(steps: list[Step]) -> Iterator[dict[str, Any]]:
    """Returns a run as messages of OpenAI's Chat API."""
    for step in steps:
        for text in step.user:
            yield {"role": "user", "content": text}
        message: dict[str, Any] = {"role": "assistant", "content": step.text or None}
        if step.calls:
            message["tool_calls"] = [
                {
                    "id": call,
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for call, name, arguments in step.calls
            ]
        yield message
        for call, result in step.results.items():
            yield {"role": "tool", "tool_call_id": call, "content": result}


def pairing_errors(messages: list[dict[str, Any]]) -> list[str]:
    """Returns what OpenAI's API would refuse: calls and results that do not match."""
    errors = []
    waiting: set[str] = set()
    for at, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                errors.append(f"{at}: a result without a call")
            waiting.discard(message["tool_call_id"])
            continue
        if waiting:
            errors.append(f"{at}: calls without results: {sorted(waiting)}")
        waiting = {call["id"] for call in message.get("tool_calls") or ()}
    if waiting:
        errors.append(f"end: calls without results: {sorted(waiting)}")
    return errors
