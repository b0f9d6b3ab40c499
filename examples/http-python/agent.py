"""A small agent over HTTP: Contexture assembles, a model answers, Contexture records. See README.md.

    CONTEXTURE_URL=http://127.0.0.1:4650 CONTEXTURE_KEY=ctx_… python agent.py

Without ANTHROPIC_API_KEY, a stand-in answers: see model.py.
"""

import argparse
import hashlib
import json
import os
import threading
import time
import uuid
from collections import Counter, defaultdict
from typing import Any

import httpx

from model import MODEL, Anthropic, StandIn

Json = dict[str, Any]
MOST_ATTEMPTS = 5


class Conflict(Exception):
    """Another client recorded a turn after the request was assembled."""


class Contexture:
    """The server. Waits and tries again where that helps."""

    def __init__(self, url: str, key: str) -> None:
        self.http = httpx.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=90)
        self.waited = 0

    def call(self, method: str, path: str, body: Json | None = None) -> Json:
        # A retry with the same key does not record a turn twice.
        headers = {"idempotency-key": str(uuid.uuid4())} if path.endswith("/turns") else {}
        answer = self.http.request(method, path, json=body, headers=headers)
        for _ in range(MOST_ATTEMPTS):
            # Too many requests, or the server is unavailable: it says how long to wait.
            if answer.status_code not in (429, 503):
                break
            self.waited += 1
            time.sleep(float(answer.headers.get("retry-after", 1)))
            answer = self.http.request(method, path, json=body, headers=headers)
        given: Json = answer.json()
        if answer.is_success:
            return given
        error = given["error"]
        if error["code"] == "conflict":
            raise Conflict(error["message"])
        raise SystemExit(f"{method} {path}: {answer.status_code} {error}")

    def post(self, path: str, body: Json) -> Json:
        return self.call("POST", path, body)

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
        self.requests: dict[int, list[Json]] = defaultdict(list)

    def ask(self, session: str, question: str, meanwhile: Json | None = None) -> str:
        """Asks the model, and runs the tools that it calls, until it has answered."""
        turns = f"/v1/sessions/{session}/turns"
        self.contexture.post(turns, {"messages": [{"role": "user", "content": question}]})
        while True:
            wanted = {"recipe": "broker", "session": session, "query": question, "model": MODEL, "format": "anthropic"}
            made = self.contexture.post("/v1/assemble", wanted)
            answer = self.model.answer(made["request"])
            if not self.record(turns, made, answer, meanwhile):
                continue
            calls = [block for block in answer["content"] if block["type"] == "tool_use"]
            if not calls:
                return answer["content"][-1]["text"]
            results = [{"role": "tool", "tool_call_id": call["id"], "content": self.use(session, call)} for call in calls]
            self.contexture.post(turns, {"messages": results})

    def record(self, turns: str, made: Json, answer: Json, meanwhile: Json | None) -> bool:
        """Records the answer as the provider sent it. Returns False if another client recorded a turn first."""
        requests = self.requests[len(self.rows)]
        requests.append(made)
        if meanwhile and len(requests) == 1:
            self.contexture.post(turns, meanwhile)
        try:
            self.contexture.post(turns, {"response": answer, "parent_turn_id": made["parent_turn_id"]})
        except Conflict:
            # The answer did not see the other turn. Nothing was recorded, so ask again.
            self.conflicts += 1
            return False
        return True

    def use(self, session: str, call: Json) -> str:
        """Runs a tool. Yours do more."""
        tool, given = call["name"], call["input"]
        if tool == "opening_hours":
            return f"On {given['day']} the library is open from ten to four."
        if tool == "find_book":
            return f"{given['title']} stands below the large windows."
        # The same fact twice is one record: it has the same id.
        fact = given["fact"]
        record: Json = {"kind": "event", "id": hashlib.sha256(fact.encode()).hexdigest()[:16], "session_id": session}
        record |= {"type": "note", "content": {"speaker": "A reader", "text": fact}}
        self.contexture.post("/v1/memory/records", {"records": [record]})
        return f"It is noted that {fact}."

    def question(self, session: str, question: str, meanwhile: Json | None = None) -> None:
        """Asks, and keeps the figures of the first request."""
        answer = self.ask(session, question, meanwhile)
        made = self.requests[len(self.rows)][0]
        shared = (made["report"].get("cache") or {}).get("shared_tokens", 0)
        memories = [row["id"] for row in made["report"]["included"] if row["layer"] == "memory"]
        row = {"session": session, "tokens": made["tokens"], "shared": shared, "memories": len(memories)}
        self.rows.append(row | {"question": question, "answer": answer})

    @property
    def report(self) -> Json:
        """The report of the latest request."""
        return self.requests[len(self.rows) - 1][-1]["report"]


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
    desk = {"messages": [{"role": "user", "content": note}]}
    agent.question("monday", "When are you open on Saturday?")
    agent.question("monday", "Please remember that Lena reads everything about whales.")
    # Another client records a message while the model works.
    agent.question("monday", "Do you have The Whale Rider?", meanwhile=desk)
    agent.question("monday", "Thank you! What did I want to know again?")
    # Another conversation: nothing of the first is in it, but for what is remembered.
    agent.question("tuesday", "What could I bring Lena to read?")
    agent.question("tuesday", "And are you open on Sunday?")
    recalled = contexture.call("POST", "/v1/memory/recall", {"query": "What does Lena like?", "max_tokens": 200})
    costs = [contexture.call("GET", f"/v1/sessions/{session}/cost") for session in ("monday", "tuesday")]
    recorded = sum(contexture.call("GET", f"/v1/sessions/{session}")["turns"] for session in ("monday", "tuesday"))
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
