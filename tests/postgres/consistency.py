"""Clients, kills and the check of tests/postgres/consistency.

Every call is an operation with the time it began and the time it ended. A session is a
list to which turns are appended. The check looks for what no order of the operations
can explain.
"""

import argparse
import copy
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("--contexture")
parser.add_argument("--url")
parser.add_argument("--work")
parser.add_argument("--kills", type=int)
parser.add_argument("--seed", type=int)
options = parser.parse_args()

CLIENTS, SESSIONS = 8, 3
chance = random.Random(options.seed)


class Server:
    """A server that can be killed and started again on another port."""

    def __init__(self, number):
        self.root = os.path.join(options.work, f"root{number}")
        os.mkdir(self.root)
        self.start()

    def start(self):
        environment = dict(
            os.environ,
            CONTEXTURE_DB=options.url,
            CONTEXTURE_SERVER_RATE_PER_SECOND="1000000",
            CONTEXTURE_SERVER_RATE_BURST="1000000",
        )
        command = [options.contexture, "serve", "--addr", "127.0.0.1:0", "--root", self.root]
        self.process = subprocess.Popen(
            command, env=environment, stderr=subprocess.PIPE, text=True
        )
        for line in self.process.stderr:
            found = re.search(r"http://([0-9.:]+)", line)
            if found:
                self.address = found[1]
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return
        sys.exit("a server did not start")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def call(server, method, target, body=None, key=None):
    """Returns the status and the answer. The status is 0 when there is no answer."""
    try:
        connection = http.client.HTTPConnection(server.address, timeout=60)
        headers = {"content-type": "application/json"}
        if key:
            headers["idempotency-key"] = key
        text = json.dumps(body) if body is not None else None
        connection.request(method, target, text, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    except (OSError, http.client.HTTPException, ValueError):
        return 0, None


servers = [Server(0), Server(1)]
for number in range(SESSIONS):
    status, answer = call(servers[0], "POST", "/v1/sessions", {"label": f"s{number}"})
    assert status == 201, (status, answer)

history, lock = [], threading.Lock()
stop = threading.Event()


def work(client):
    """Records turns and reads sessions. A turn without an answer is sent again with the
    same key, to the other server."""
    own = random.Random(f"{options.seed} {client}")
    count, pending = 0, None
    while not stop.is_set() or pending:
        at = own.randrange(2)
        session = f"s{own.randrange(SESSIONS)}"
        if pending is None and own.random() < 0.3:
            began = time.monotonic()
            status, answer = call(servers[at], "GET", f"/v1/sessions/{session}")
            if status == 200:
                with lock:
                    history.append(
                        {"op": "read", "session": session, "began": began,
                         "ended": time.monotonic(), "turns": answer["turns"],
                         "head": answer["head"]}
                    )
            continue
        if pending is None:
            turn = {"messages": [{"role": "user", "content": f"{client}-{count}"}]}
            if own.random() < 0.3:
                status, answer = call(servers[at], "GET", f"/v1/sessions/{session}")
                if status == 200:
                    turn["parent_turn_id"] = answer["head"]
            pending = (session, turn, f"{client}-{count}", time.monotonic())
            count += 1
        session, turn, key, began = pending
        target = f"/v1/sessions/{session}/turns"
        status, answer = call(servers[at], "POST", target, turn, key=key)
        if status in (0, 503, 504):
            time.sleep(0.05)
            continue
        pending = None
        with lock:
            history.append(
                {"op": "append", "session": session, "began": began,
                 "ended": time.monotonic(), "status": status, "text": key,
                 "id": answer.get("turn_id"), "parent": turn.get("parent_turn_id", "any")}
            )


clients = [threading.Thread(target=work, args=(n,)) for n in range(CLIENTS)]
for client in clients:
    client.start()
for _ in range(options.kills):
    time.sleep(chance.uniform(0, 0.6))
    victim = chance.choice(servers)
    victim.kill()
    victim.start()
time.sleep(1)
stop.set()
for client in clients:
    client.join()

chains = {}
for number in range(SESSIONS):
    label, turns, before = f"s{number}", [], None
    while True:
        target = f"/v1/sessions/{label}/history?limit=100"
        target += f"&before={before}" if before else ""
        status, page = call(servers[0], "GET", target)
        assert status == 200, (status, page)
        turns = page["turns"] + turns
        before = page.get("next")
        if not before:
            break
    chains[label] = [
        {"id": turn["id"], "depth": turn["depth"], "text": turn["messages"][0]["content"]}
        for turn in sorted(turns, key=lambda turn: turn["depth"])
    ]
for server in servers:
    server.process.terminate()
    server.process.wait()


def check(history, chains):
    """Returns what no order of the operations explains."""
    wrong = []
    for label, chain in chains.items():
        if [turn["depth"] for turn in chain] != list(range(1, len(chain) + 1)):
            wrong.append(f"{label}: the chain has gaps")
        depth = {turn["id"]: turn["depth"] for turn in chain}
        texts = [turn["text"] for turn in chain]
        if len(set(texts)) != len(texts):
            wrong.append(f"{label}: a turn was recorded twice")
        operations = [one for one in history if one["session"] == label]
        # What each operation says about how long the list was when it took effect.
        known = []
        for one in operations:
            if one["op"] == "read":
                head = depth.get(one["head"], 0) if one["head"] else 0
                if head != one["turns"] or (one["head"] and one["head"] not in depth):
                    wrong.append(f"{label}: a read saw a head that is not in the chain: {one}")
                known.append((one["began"], one["ended"], one["turns"], one["turns"]))
            elif one["status"] == 201:
                if one["id"] not in depth:
                    wrong.append(f"{label}: an acknowledged turn is lost: {one}")
                    continue
                at = depth[one["id"]]
                before = chain[at - 2]["id"] if at > 1 else None
                if one["parent"] != "any" and one["parent"] != before:
                    wrong.append(f"{label}: a turn does not follow its parent: {one}")
                known.append((one["began"], one["ended"], at - 1, at))
            elif one["text"] in texts:
                wrong.append(f"{label}: a turn that was refused is there: {one}")
        # Real time: what began after another one had ended is not older.
        latest, ended = 0, sorted(known, key=lambda one: one[1])
        at = 0
        for began, _, saw, _ in sorted(known):
            while at < len(ended) and ended[at][1] < began:
                latest = max(latest, ended[at][3])
                at += 1
            if saw < latest:
                wrong.append(f"{label}: something saw {saw} turns after {latest} were known")
    return wrong


def controls():
    """Changes the history in ways that must be noticed. Yields those that are not."""
    appends = [i for i, one in enumerate(history) if one["op"] == "append" and one["status"] == 201]
    reads = [i for i, one in enumerate(history) if one["op"] == "read" and one["turns"] > 3]
    last = max(appends, key=lambda i: history[i]["ended"])

    def lose(changed, chain):
        label = changed[last]["session"]
        chain[label] = [turn for turn in chain[label] if turn["id"] != changed[last]["id"]]

    def keep_refused(changed, chain):
        changed[last]["status"] = 409

    def read_stale(changed, chain):
        one = max(reads, key=lambda i: changed[i]["turns"])
        label = changed[one]["session"]
        changed[one].update(turns=1, head=chain[label][0]["id"], began=1e9, ended=1e9)

    def record_twice(changed, chain):
        label = changed[last]["session"]
        chain[label].append(dict(chain[label][0], depth=len(chain[label]) + 1, id="again"))

    for change in (lose, keep_refused, read_stale, record_twice):
        changed, chain = copy.deepcopy(history), copy.deepcopy(chains)
        change(changed, chain)
        if not check(changed, chain):
            yield change.__name__


wrong, blind = check(history, chains), list(controls())
counts = {}
for one in history:
    name = one["op"] + (f" {one['status']}" if one["op"] == "append" else "")
    counts[name] = counts.get(name, 0) + 1
print(
    f"{options.kills} kills, seed {options.seed}: {counts}, "
    f"{sum(map(len, chains.values()))} turns in {SESSIONS} sessions, {len(wrong)} violations, "
    f"controls not noticed: {blind}"
)
for line in wrong[:20]:
    print(line)
sys.exit(bool(wrong or blind))
