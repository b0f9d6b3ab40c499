"""The local server: forks, Ctrl-C, and directories that cannot be written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import contexture


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_leaves_the_server_to_its_parent(tmp_path: Path) -> None:
    client = contexture.Client(root=tmp_path)
    client.get_memory_stats()
    pid = os.fork()
    if pid == 0:
        # The child starts a server of its own, and closes nothing of its parent.
        client.close()
        client.get_memory_stats()
        client.close()
        time.sleep(20)
        os._exit(0)
    try:
        time.sleep(1)
        client.get_memory_stats()
        started = time.monotonic()
        client.close()
        assert time.monotonic() - started < 5
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_has_connections_of_its_own(shared_server: contexture.LocalServer) -> None:
    client = contexture.Client(shared_server.url())
    client.get_memory_stats()
    children = []
    for number in range(3):
        pid = os.fork()
        if pid == 0:
            text = "word " * (number * 50 + 1)
            counts = {client.count_tokens(texts=[text]).files[0].tokens for _ in range(30)}
            os._exit(0 if len(counts) == 1 else 1)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0, 0]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_does_not_end_the_server(tmp_path: Path) -> None:
    # A program that was started in the background ignores the signal.
    program = """
import signal
import time
from contexture import Client
signal.signal(signal.SIGINT, signal.default_int_handler)
client = Client(root=".")
client.get_memory_stats()
try:
    print(client.server.pid, flush=True)
    time.sleep(30)
except KeyboardInterrupt:
    pass
client.get_memory_stats()
print(client.server.pid)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=30)[0] == first


def test_a_directory_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(contexture._default, "_client", None)
    monkeypatch.setattr(os, "access", lambda *_: False)
    request = {"model": "gpt-5.6", "messages": [{"role": "user", "content": "Hi."}]}
    assert contexture.fit(request) == request
    assert list(tmp_path.iterdir()) == []
    assert contexture._default._temporary is not None
    contexture._default._temporary.stop()


def test_gemini_accepts_a_text(client: contexture.Client) -> None:
    request: dict[str, Any] = {
        "model": "gemini-2.5-pro",
        "contents": "hi",
        "config": {"tools": [len]},
    }
    assert contexture.fit(request, client=client) == request
    contents: list[Any] = [
        "word " * 100,
        {"role": "model", "parts": [{"text": "word " * 100}]},
    ] * 20
    request = {"model": "gemini-2.5-pro", "contents": [*contents, "?"]}
    request["config"] = {"system_instruction": "word " * 1000}
    fitted = contexture.fit(request, max_tokens=4_000, reserve_response=500, client=client)
    assert len(fitted["contents"]) < 20
    assert fitted["config"] is request["config"]
    assert set(fitted) == set(request)
