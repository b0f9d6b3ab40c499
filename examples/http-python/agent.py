"""A small agent over HTTP: Contexture assembles, a model answers, Contexture records. See README.md.

    CONTEXTURE_URL=http://127.0.0.1:8787 CONTEXTURE_KEY=ctx_… python agent.py

Without ANTHROPIC_API_KEY, a stand-in answers: see model.py.
"""

import argparse
import hashlib
import json
import os
import threading
import time
from collections import Counter
from typing import Any

import httpx

from model import MODEL, Anthropic, StandIn

Json = dict[str, Any]
MOST_ATTEMPTS = 5


class Conflict(Exception):
    """Somebody else recorded a turn meanwhile."""


class Contexture:
    """The server. Waits and tries again where that helps."""

    def __init__(self, url: str, key: str) -> None:
        self.http = httpx.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=90)
        self.waited = 0

    def call(self, method: str, path: str, body: Json | None = None) -> Json:
        answer = self.http.request(method, path, json=body)
        for _ in range(MOST_ATTEMPTS):
            # Too many requests, or the server cannot work now: it says how long to wait.
            if answer.status_code not in (429, 503):
                break
            self.waited += 1
            time.sleep(float(answer.headers.get("retry-after", 1)))
            answer = self.http.request(method, path, json=body)
        given: Json = answer.json()
        if answer.is_success:
            return given
        error = given["error"]
        if error["code"] == "conflict":
            raise Conflict(error["message"])
        raise SystemExit(f"{method} {path}: {answer.status_code} {error}")

    def listen(self, session: str, heard: Counter[str]) -> None:
        """Counts what happens in a session, from now on, until the server stops."""
        listening = threading.Event()

        def read() -> None:
            with self.http.stream("GET", f"/v1/sessions/{session}/events", timeout=None) as events:
                events.raise_for_status()
                listening.set()
                for line in events.iter_lines():
                    if line.startswith("event: "):
                        heard[line.removeprefix("event: ")] += 1

        threading.Thread(target=read, daemon=True).start()
        if not listening.wait(10):
            raise SystemExit(f"{session}: cannot listen to events")


class Agent:
    def __init__(self, contexture: Contexture, model: Anthropic | StandIn) -> None:
        self.contexture, self.model = contexture, model
        self.rows: list[Json] = []
        self.conflicts = 0
        self.report: Json = {}

    def use(self, tool: str, given: Json, session: str) -> str:
        """What the agent's tools do. Yours do more."""
        if tool == "opening_hours":
            return f"On {given['day']} the library is open from ten to four."
        if tool == "find_book":
            return f"{given['title']} stands below the large windows."
        # The same fact twice is one record: it has the same id.
        fact = given["fact"]
        record: Json = {"kind": "event", "id": hashlib.sha256(fact.encode()).hexdigest()[:16], "session_id": session}
        record |= {"type": "note", "content": {"speaker": "A reader", "text": fact}}
        self.contexture.call("POST", "/v1/memory/records", {"records": [record]})
        return f"It is noted that {fact}."

    def ask(self, session: str, question: str, meanwhile: Json | None = None) -> None:
        """One turn: assemble, ask the model until it is done, record."""
        for attempt in range(MOST_ATTEMPTS):
            wanted = {"recipe": "broker", "format": "anthropic", "model": MODEL, "session": session, "event": question}
            made = self.contexture.call("POST", "/v1/assemble", wanted)
            turn = self.answer(made, session, question)
            turn |= {"parent_turn_id": made["parent_turn_id"], "request_hash": made["snapshot"]}
            # Whoever sends it again, because no answer came, does not record it twice.
            turn["idempotency_key"] = f"{session}-{len(self.rows)}-{attempt}"
            if meanwhile and attempt == 0:
                self.contexture.call("POST", f"/v1/sessions/{session}/turns", meanwhile)
            try:
                self.contexture.call("POST", f"/v1/sessions/{session}/turns", turn)
            except Conflict:
                # The answer did not know of the other turn: nothing was recorded, so ask again.
                self.conflicts += 1
                continue
            self.report = made["report"]
            shared = (self.report.get("cache") or {}).get("shared_tokens", 0)
            memories = [row["id"] for row in self.report["included"] if row["layer"] == "memory"]
            said = turn["messages"][-1]["content"][-1]["text"]
            row = {"session": session, "tokens": made["tokens"], "shared": shared, "memories": len(memories)}
            self.rows.append(row | {"question": question, "answer": said})
            return
        raise SystemExit(f"{session}: others are faster every time")

    def answer(self, made: Json, session: str, question: str) -> Json:
        """Asks the model, and does what it calls for, until it has answered. Returns the turn."""
        request, usage = made["request"], Counter[str]()
        said: list[Json] = [{"role": "user", "source": "human", "content": question}]
        while True:
            answer = self.model.answer(request)
            counted = answer["usage"]
            cached, written = counted.get("cache_read_input_tokens", 0), counted.get("cache_creation_input_tokens", 0)
            # Anthropic's input tokens are those that are not in the cache; ours are all of them.
            usage["input_tokens"] += counted["input_tokens"] + cached + written
            usage["cached_input_tokens"] += cached
            usage["cache_write_tokens"] += written
            usage["output_tokens"] += counted["output_tokens"]
            blocks, results = [], []
            for block in answer["content"]:
                if block["type"] != "tool_use":
                    blocks.append(block)
                    continue
                call = {"type": "tool_call", "id": block["id"], "name": block["name"], "arguments": block["input"]}
                blocks.append(call)
                result = self.use(block["name"], block["input"], session)
                results.append({"type": "tool_result", "tool_use_id": block["id"], "content": result})
            said.append({"role": "assistant", "content": blocks})
            if not results:
                stop = answer["stop_reason"]
                turn = {"messages": said, "model": MODEL, "provider": "anthropic", "usage": usage, "stop_reason": stop}
                return turn
            said += [{"role": "tool", "tool_call_id": r["tool_use_id"], "content": r["content"]} for r in results]
            grown = [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": results}]
            request = {**request, "messages": request["messages"] + grown}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    contexture = Contexture(os.environ["CONTEXTURE_URL"], os.environ["CONTEXTURE_KEY"])
    key = os.environ.get("ANTHROPIC_API_KEY")
    agent = Agent(contexture, Anthropic(key) if key else StandIn())
    heard: Counter[str] = Counter()
    for session in ("monday", "tuesday"):
        contexture.call("POST", "/v1/sessions", {"label": session, "task": "Answer a reader"})
        contexture.listen(session, heard)
    note = "From the desk: the lift is out of order."
    desk = [{"role": "user", "content": note}, {"role": "assistant", "content": "I see."}]
    agent.ask("monday", "When are you open on Saturday?")
    agent.ask("monday", "Please remember that Lena reads everything about whales.")
    # Somebody at the desk records a turn while the model thinks.
    agent.ask("monday", "Do you have The Whale Rider?", meanwhile={"messages": desk})
    agent.ask("monday", "Thank you! What did I want to know again?")
    # Another conversation: nothing of the first is in it, but for what is remembered.
    agent.ask("tuesday", "What could I bring Lena to read?")
    agent.ask("tuesday", "And are you open on Sunday?")
    recalled = contexture.call("POST", "/v1/memory/recall", {"query": "What does Lena like?", "max_tokens": 200})
    costs = [contexture.call("GET", f"/v1/sessions/{session}/cost") for session in ("monday", "tuesday")]
    recorded = len(agent.rows) + 1
    for _ in range(100):
        # Events come on their own way, and may be a little late.
        if heard["turn_recorded"] < recorded:
            time.sleep(0.05)

    budget = agent.report["budget"]
    found = {
        "model": type(agent.model).__name__,
        "turns": agent.rows,
        "conflicts": agent.conflicts,
        "waited": contexture.waited,
        "recalled": [part["content"] for part in recalled["components"]],
        "dollars": round(sum(cost["dollars"] for cost in costs), 9),
        "dollars_uncached": round(sum(cost["dollars_uncached"] for cost in costs), 9),
        "report": {"kept": len(agent.report["included"]), "left_out": len(agent.report["excluded"])},
        "events": heard,
    }
    if args.json:
        print(json.dumps(found, indent=1))
        return
    print(f"{'session':<8} {'tokens':>6} {'shared':>6} {'memories':>8}  question, answer")
    for row in agent.rows:
        print("{session:<8} {tokens:>6} {shared:>6} {memories:>8}  {question}".format(**row))
        print(f"{'':<31}  → {row['answer']}")
    print(f"answers by {found['model']}; {agent.conflicts} conflict, answered again")
    print(f"heard: {', '.join(f'{count} {name}' for name, count in sorted(heard.items()))}")
    print(f"recalled: {'; '.join(found['recalled'])}")
    print(f"cost: ${found['dollars']:.4f}; without the cache ${found['dollars_uncached']:.4f}")
    print(f"latest request: {budget['used']} of {budget['effective']} tokens, {found['report']['kept']} parts kept")


if __name__ == "__main__":
    main()
