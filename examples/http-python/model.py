"""What answers: Anthropic's API, or a stand-in that is no model at all."""

import json
import os
import re
from typing import Any

import httpx

Json = dict[str, Any]
MODEL = "claude-sonnet-5-5"


class Anthropic:
    """Anthropic's API."""

    def __init__(self, key: str) -> None:
        headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
        self.http = httpx.Client(base_url="https://api.anthropic.com", headers=headers, timeout=120)

    def answer(self, request: Json) -> Json:
        answer: Json = self.http.post("/v1/messages", json=request).raise_for_status().json()
        return answer


class StandIn:
    """Not a model. It answers with a tool's result, with what is remembered, or with what was asked first,
    takes four characters for a token, and has in its cache what the request before began with."""

    RULES = [
        (r"open on (\w+)", "opening_hours", "day"),
        (r"remember that (.+)\.", "remember", "fact"),
        (r"have (.+)\?", "find_book", "title"),
    ]

    def __init__(self) -> None:
        self.before, self.calls = "", 0

    def answer(self, request: Json) -> Json:
        messages: list[Json] = request["messages"]
        for message, after in zip(messages, messages[1:]):
            assert message["role"] != after["role"], "roles must take turns"
            calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
            results = [block["tool_use_id"] for block in after["content"] if block["type"] == "tool_result"]
            assert calls == results, "every call needs its result"
        sent = json.dumps([request.get("tools"), request["system"], messages])
        sent = sent.replace(', "cache_control": {"type": "ephemeral"}', "")
        cached = len(os.path.commonprefix([sent, self.before])) // 4
        self.before = sent
        content = self.content(messages)
        usage = {"input_tokens": len(sent) // 4 - cached, "cache_read_input_tokens": cached, "output_tokens": 30}
        stop = "tool_use" if content[-1]["type"] == "tool_use" else "end_turn"
        answer = {"id": f"msg_{len(sent)}", "type": "message", "role": "assistant", "model": MODEL}
        return answer | {"content": content, "usage": usage, "stop_reason": stop}

    def content(self, messages: list[Json]) -> list[Json]:
        last = messages[-1]["content"]
        results = [block["content"] for block in last if block["type"] == "tool_result"]
        if results:
            return [{"type": "text", "text": " ".join(map(str, results))}]
        # What is recalled comes after the question.
        question = next(block["text"] for block in last if not block["text"].startswith("<context-"))
        for pattern, name, argument in self.RULES:
            if found := re.search(pattern, question):
                self.calls += 1
                call = {"type": "tool_use", "id": f"call_{self.calls}", "name": name, "input": {argument: found[1]}}
                return [{"type": "text", "text": "One moment."}, call]
        asked = "\n".join(block["text"] for block in last)
        remembered = re.search(r'path="memory">.*?\] *\n(.+?)\n</context-\d+>', asked, re.S)
        first = messages[0]["content"][0]["text"]
        said = f"I remember: {remembered[1]}" if remembered else f"You asked first: {first}"
        return [{"type": "text", "text": said}]
