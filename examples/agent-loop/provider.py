"""A stand-in for Anthropic's Messages API: checks requests, keeps a prompt cache, answers.

It knows the rules that a request is refused for (roles take turns, every call of a tool has its result
right behind it, at most four cache marks, what fits the window) and counts as the API does: what was
read from the cache, what was put there, and what is neither. Its answers are made up.
"""

import hashlib
import http.server
import json
import random
import re
import threading

MOST_MARKS = 4
LOOK_BACK = 20  # so many blocks before a mark are looked at for what is known
LEAST_CACHED = 1024  # tokens; shorter beginnings are not kept
BYTES_PER_TOKEN = 3.2
PER_MESSAGE = 4


class Refused(Exception):
    """What the API answers with status 400."""


def tokens(value):
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return max(1, round(len(text.encode()) / BYTES_PER_TOKEN))


def need(right, text):
    if not right:
        raise Refused(text)


# ---------------------------------------------------------------- rules


def check(request):
    need(isinstance(request.get("model"), str), "model: field required")
    need(isinstance(request.get("max_tokens"), int) and request["max_tokens"] > 0, "max_tokens: must be positive")
    names = [tool.get("name") for tool in request.get("tools", [])]
    need(len(names) == len(set(names)), "tools: names must be unique")
    for name in names:
        need(re.fullmatch(r"[A-Za-z0-9_-]{1,128}", name or ""), f"tools: bad name {name!r}")
    for block in request.get("system", []):
        need(block.get("type") == "text" and block.get("text", "").strip(), "system: text must not be empty")
    messages = request.get("messages") or []
    need(messages, "messages: at least one message is required")
    need(messages[0]["role"] == "user", "messages.0: the first message must be the user's")
    need(messages[-1]["role"] == "user", "messages: the last message must be the user's")
    seen, waiting = set(), []
    for i, message in enumerate(messages):
        role, blocks = message["role"], message["content"]
        need(role in ("user", "assistant"), f"messages.{i}: unexpected role {role!r}")
        need(i == 0 or role != messages[i - 1]["role"], f"messages.{i}: roles must alternate")
        need(isinstance(blocks, list) and blocks, f"messages.{i}: content must not be empty")
        results = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        need(
            sorted(results) == sorted(waiting),
            f"messages.{i}: `tool_use` ids {waiting} need `tool_result` blocks right behind them, found {results}",
        )
        kinds = [b["type"] == "tool_result" for b in blocks]
        need(kinds == sorted(kinds, reverse=True), f"messages.{i}: `tool_result` blocks must come first")
        waiting = []
        for block in blocks:
            if block["type"] == "text":
                need(block["text"].strip(), f"messages.{i}: text must not be empty")
            elif block["type"] == "tool_use":
                need(role == "assistant", f"messages.{i}: `tool_use` is the assistant's")
                need(block["id"] not in seen, f"messages.{i}: `tool_use` ids must be unique")
                need(isinstance(block["input"], dict), f"messages.{i}: `input` must be an object")
                seen.add(block["id"])
                waiting.append(block["id"])
            else:
                need(block["type"] == "tool_result" and role == "user", f"messages.{i}: unexpected {block['type']}")
    marks = sum("cache_control" in block for block in flat(request))
    need(marks <= MOST_MARKS, f"a maximum of {MOST_MARKS} blocks with cache_control may be provided, found {marks}")


def flat(request):
    """The blocks of a request in the order of the cache: tools, system, messages."""
    yield from request.get("tools", [])
    yield from request.get("system", [])
    for message in request["messages"]:
        yield from message["content"]


# ---------------------------------------------------------------- cache


class Cache:
    """Beginnings of requests, by the hash of everything up to a block."""

    def __init__(self):
        self.known = set()

    def usage(self, request):
        hashes, sums, marks = [], [], []
        digest, total = hashlib.sha256(), 0
        starts = {id(message["content"][0]): message["role"] for message in request["messages"]}
        for at, block in enumerate(flat(request)):
            bare = {key: value for key, value in block.items() if key != "cache_control"}
            role = starts.get(id(block))
            digest.update(repr(role).encode() + json.dumps(bare, sort_keys=True).encode())
            total += tokens(bare) + (PER_MESSAGE if role else 0)
            hashes.append(digest.hexdigest())
            sums.append(total)
            if "cache_control" in block:
                marks.append(at)
        hit = -1
        for mark in reversed(marks):
            places = range(mark, max(-1, mark - LOOK_BACK - 1), -1)
            hit = max(hit, next((at for at in places if hashes[at] in self.known), -1))
        for mark in marks:
            if sums[mark] >= LEAST_CACHED:
                self.known.add(hashes[mark])
        read = sums[hit] if hit >= 0 else 0
        last = max([at for at in marks if sums[at] >= LEAST_CACHED], default=-1)
        marked = sums[last] if last >= 0 else 0
        return {
            "input_tokens": total - max(marked, read),
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": max(0, marked - read),
        }


# ---------------------------------------------------------------- answers

SUBJECTS = ["the parser", "the lexer", "the report", "the rounding", "the test", "the column", "the posting"]
VERBS = ["takes", "drops", "keeps", "expects", "misses", "repeats", "counts"]
OBJECTS = ["an elided amount", "the second currency", "a comment", "the indentation", "a sign", "the total"]
WHERE = ["in the first line", "behind a blank line", "when the book is empty", "for negative amounts", "twice"]


def sentence(dice):
    words = [dice.choice(part) for part in (SUBJECTS, VERBS, OBJECTS, WHERE)]
    text = " ".join(words) + "."
    return text[0].upper() + text[1:]


class Provider:
    """The API with its state. `window` is what a request and its answer may have together."""

    def __init__(self, window, seed=1):
        self.window, self.dice, self.cache = window, random.Random(seed), Cache()
        self.requests, self.refused, self.calls = 0, [], 0
        self.total = {"input_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
        self.largest = 0

    def answer(self, request):
        check(request)
        usage = self.cache.usage(request)
        size = sum(usage.values())
        need(
            size + request["max_tokens"] <= self.window,
            f"prompt is too long: {size + request['max_tokens']} tokens > {self.window} maximum",
        )
        self.largest = max(self.largest, size)
        for key, value in usage.items():
            self.total[key] += value
        content, stop = self.content(request)
        usage["output_tokens"] = sum(tokens(block) for block in content)
        return {
            "id": f"msg_{self.requests}",
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": content,
            "stop_reason": stop,
            "usage": usage,
        }

    def content(self, request):
        behind_result = request["messages"][-1]["content"][0]["type"] == "tool_result"
        tools = [tool["name"] for tool in request.get("tools", [])]
        if tools and self.dice.random() < (0.15 if behind_result else 0.4):
            calls = []
            for _ in range(self.dice.choice([1, 1, 2])):
                self.calls += 1
                name = self.dice.choice(tools)
                given = {"path": f"src/{self.dice.choice(['lexer', 'parser', 'ledger', 'report'])}.py"}
                if name == "run_tests":
                    given = {"word": self.dice.choice(["amount", "comment", "sign", "total"])}
                calls.append({"type": "tool_use", "id": f"toolu_{self.calls:04}", "name": name, "input": given})
            return [{"type": "text", "text": "Let me look."}, *calls], "tool_use"
        text = " ".join(sentence(self.dice) for _ in range(self.dice.randint(3, 9)))
        return [{"type": "text", "text": text}], "end_turn"

    def serve(self):
        """Starts the server on a free port of this machine; returns it."""
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                provider.requests += 1
                try:
                    need(self.path == "/v1/messages", f"no such path: {self.path}")
                    status, answer = 200, provider.answer(json.loads(body))
                except (Refused, KeyError, TypeError, ValueError) as e:
                    text = str(e) if isinstance(e, Refused) else f"{type(e).__name__}: {e}"
                    provider.refused.append(text)
                    error = {"type": "invalid_request_error", "message": text}
                    status, answer = 400, {"type": "error", "error": error}
                out = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(out)))
                self.end_headers()
                self.wfile.write(out)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server
