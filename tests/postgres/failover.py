"""One round of tests/postgres/failover: servers, writers, a kill, and the check."""

import argparse
import http.client
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("--contexture")
parser.add_argument("--url")
parser.add_argument("--roots", nargs=2)
parser.add_argument("--primary", type=int)
parser.add_argument("--promote")
parser.add_argument("--round")
# A control: the standby is cut off a second before the primary dies, and commits do not
# wait for it.
parser.add_argument("--asynchronous", action="store_true")
options = parser.parse_args()

WRITERS, SESSIONS = 8, 4


def serve(root):
    command = [options.contexture, "serve", "--addr", "127.0.0.1:0", "--root", root]
    environment = dict(
        os.environ,
        CONTEXTURE_DB=options.url,
        CONTEXTURE_SERVER_RATE_PER_SECOND="1000000",
        CONTEXTURE_SERVER_RATE_BURST="1000000",
    )
    server = subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True
    )
    for line in server.stderr:
        found = re.search(r"http://([0-9.:]+)", line)
        if found:
            threading.Thread(target=server.stderr.read, daemon=True).start()
            return server, found[1]
    sys.exit("a server did not start")


def call(address, method, target, body=None, key=None):
    connection = http.client.HTTPConnection(address, timeout=60)
    headers = {"content-type": "application/json"}
    if key:
        headers["idempotency-key"] = key
    text = json.dumps(body) if body is not None else None
    connection.request(method, target, text, headers)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read() or b"null")


servers = [serve(root) for root in options.roots]
addresses = [address for _, address in servers]
for number in range(SESSIONS):
    status, _ = call(addresses[0], "POST", "/v1/sessions", {"label": f"s{number}"})
    assert status == 201, status

acknowledged, statuses, lock = [], {}, threading.Lock()
stop = threading.Event()
back = []
promoted = None


def write(writer):
    session, count = f"s{writer % SESSIONS}", 0
    while not stop.is_set():
        text = f"{writer}-{count}"
        turn = {"messages": [{"role": "user", "content": text}]}
        address = addresses[count % 2]
        target = f"/v1/sessions/{session}/turns"
        try:
            status, answer = call(address, "POST", target, turn, key=text)
        except OSError as error:
            sys.exit(f"a server is gone: {error}")
        with lock:
            statuses[status] = statuses.get(status, 0) + 1
            if status == 201:
                acknowledged.append((session, answer["turn_id"]))
                if promoted and not back:
                    back.append(time.time())
        if status == 201:
            count += 1
        elif status in (503, 504):
            # The same turn with the same key: recorded once, whatever happened.
            time.sleep(0.05)
        else:
            count += 1


writers = [threading.Thread(target=write, args=(n,)) for n in range(WRITERS)]
for writer in writers:
    writer.start()
time.sleep(3)
senders = []
if options.asynchronous:
    listed = subprocess.run(
        ["ps", "--ppid", str(options.primary), "-o", "pid=,args="], capture_output=True, text=True
    )
    lines = [line.split(None, 1) for line in listed.stdout.splitlines()]
    senders = [int(pid) for pid, what in lines if "walsender" in what]
    for sender in senders:
        os.kill(sender, signal.SIGSTOP)
    time.sleep(1)
os.kill(options.primary, signal.SIGKILL)
for sender in senders:
    os.kill(sender, signal.SIGKILL)
subprocess.run(shlex.split(options.promote), check=True, stdout=subprocess.DEVNULL)
promoted = time.time()
while not back and time.time() < promoted + 60:
    time.sleep(0.05)
time.sleep(2)
stop.set()
for writer in writers:
    writer.join()

lost, broken = 0, []
for number in range(SESSIONS):
    label = f"s{number}"
    chain, before = [], None
    while True:
        target = f"/v1/sessions/{label}/history?limit=100"
        target += f"&before={before}" if before else ""
        status, page = call(addresses[1], "GET", target)
        assert status == 200, (status, page)
        chain += page["turns"]
        before = page.get("next")
        if not before:
            break
    numbers = sorted(turn["depth"] for turn in chain)
    if numbers != list(range(1, len(numbers) + 1)):
        broken.append(label)
    there = {turn["id"] for turn in chain}
    lost += sum(1 for session, turn in acknowledged if session == label and turn not in there)
for server, _ in servers:
    server.terminate()
    server.wait()
unexpected = set(statuses) - {201, 409, 503}
seconds = back[0] - promoted if back else None
print(
    f"round {options.round}: {len(acknowledged)} acknowledged, {lost} lost, "
    f"broken chains {broken}, answers {statuses}, back after {seconds and round(seconds, 2)} s"
)
if options.asynchronous:
    sys.exit("the control lost nothing" if not lost else 0)
sys.exit(bool(lost or broken or unexpected or not back))
