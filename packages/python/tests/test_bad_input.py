"""What goes wrong, and what the error says."""

from __future__ import annotations

import asyncio
import http.server
import importlib
import os
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

import contexture
from contexture import _binary, _transport
from contexture._require import require


def test_there_is_no_command_for_this_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONTEXTURE_BIN")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(_binary, "_directories", list)
    with pytest.raises(contexture.BinaryNotFoundError, match="CONTEXTURE_URL"):
        contexture.Client().list_sessions()
    monkeypatch.setenv("CONTEXTURE_BIN", "/nowhere/contexture")
    with pytest.raises(contexture.BinaryNotFoundError, match="/nowhere/contexture"):
        contexture.Client().list_sessions()
    ran = subprocess.run(
        [sys.executable, "-m", "contexture", "--version"],
        env={**os.environ, "CONTEXTURE_BIN": "/nowhere/contexture"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: CONTEXTURE_BIN is /nowhere/contexture")


def test_the_command_runs() -> None:
    command = [sys.executable, "-m", "contexture", "--version"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == f"contexture {contexture.__version__}"


def test_the_port_is_in_use(tmp_path: Path) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        server = contexture.LocalServer(tmp_path, port=busy.getsockname()[1])
        with pytest.raises(contexture.ServerStartError, match="cannot listen on"):
            server.url()


def test_the_root_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(contexture.ServerStartError, match="did not start: error"):
        contexture.Client(root=tmp_path / "nowhere").list_sessions()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_paths_that_are_not_utf8(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(root)
    with contexture.Client(root=root) as client:
        client.create_session(label="s")
        assert [session.label for session in client.list_sessions().sessions] == ["s"]
    assert os.path.exists(root + b"/.contexture")


def test_a_killed_server_is_an_error_and_then_starts_again(own_client: contexture.Client) -> None:
    own_client.create_session(label="kept")
    assert own_client.server is not None
    pid = own_client.server.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert own_client.server.wait_for_exit(10)
    # Between two calls nothing is lost: the next call starts it again.
    assert own_client.get_session("kept").label == "kept"
    assert own_client.server.pid != pid


def test_a_server_that_dies_during_a_call(own_client: contexture.Client) -> None:
    own_client.create_session(label="s")
    events = own_client.listen_to_session("s")
    assert own_client.server is not None
    pid = own_client.server.pid
    assert pid is not None
    threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
    with pytest.raises(contexture.ServerUnavailableError, match="the next call starts it again"):
        next(events)
    assert own_client.get_session("s").label == "s"


def test_the_server_ends_with_a_killed_process(tmp_path: Path) -> None:
    script = (
        "import contexture, sys, time\n"
        "client = contexture.Client(root=sys.argv[1])\n"
        "client.list_sessions()\n"
        "print(client.server.pid, client.server.url(), flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        _, url = process.stdout.readline().split()
        process.kill()
    with contexture.Client(url, timeout=5) as client:
        for _ in range(200):
            try:
                client.list_sessions()
            except contexture.ServerUnavailableError:
                return
            threading.Event().wait(0.05)
    raise AssertionError("the server outlived its client")


def test_a_server_that_does_not_answer() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(contexture.ServerUnavailableError, match=url):
        contexture.Client(url).list_sessions()


class _Other(http.server.BaseHTTPRequestHandler):
    """A server that is of another version, or not Contexture at all."""

    version: str | None = None
    body = b"<html>It works!</html>"
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        if self.version:
            self.send_header("contexture-version", self.version)
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def other() -> Iterator[tuple[type[_Other], str]]:
    handler = type("Handler", (_Other,), {})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield handler, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_another_server(other: tuple[type[_Other], str]) -> None:
    _, url = other
    with pytest.raises(contexture.InvalidAnswerError, match="is this address a Contexture server"):
        contexture.Client(url).list_sessions()


def test_a_server_of_another_version(other: tuple[type[_Other], str]) -> None:
    handler, url = other
    handler.version = "9.9.0"
    handler.body = b'{"stacks": [], "a_new_field": true}'
    expected = "the server has version 9.9.0 and contexture-ai has version"
    client = contexture.Client(url)
    with pytest.warns(contexture.VersionWarning, match=expected):
        assert client.list_stacks().stacks == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client.list_stacks()
    handler.body = b'{"error": {"code": "no_such_path", "message": "there is no such path"}}'
    handler.status = 404
    with pytest.raises(contexture.ApiError, match=expected):
        client.list_stacks()


def test_proxies_of_the_environment(
    shared_server: contexture.LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with contexture.Client(server=shared_server) as client:
        assert client.list_recipes().recipes
    assert not _transport.uses_proxies("http://localhost:1")
    assert not _transport.uses_proxies("http://[::1]:1")
    assert _transport.uses_proxies("http://contexture.example")


def test_an_event_loop_that_was_closed(shared_server: contexture.LocalServer) -> None:
    client = contexture.AsyncClient(server=shared_server)
    for _ in range(3):
        assert asyncio.run(client.list_recipes()).recipes
    asyncio.run(client.aclose())
    assert asyncio.run(client.list_recipes()).recipes


def test_cancelled_requests(shared_server: contexture.LocalServer) -> None:
    async def go() -> None:
        async with contexture.AsyncClient(server=shared_server) as client:
            text = "word " * 200_000
            request = {"model": "gpt-5.6", "messages": [{"role": "user", "content": text}]}
            calls = [asyncio.create_task(client.fit(request=request)) for _ in range(5)]
            await asyncio.sleep(0.05)
            for call in calls:
                call.cancel()
            done = await asyncio.gather(*calls, return_exceptions=True)
            assert any(isinstance(result, asyncio.CancelledError) for result in done)
            assert (await client.list_recipes()).recipes
            with pytest.raises((asyncio.TimeoutError, TimeoutError)):
                await asyncio.wait_for(client.fit(request=request), 0.001)
            assert (await client.list_recipes()).recipes

    asyncio.run(go())


def test_a_framework_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = importlib.import_module("contexture.langchain")
    monkeypatch.setattr(metadata, "version", lambda name: "0.3.27")
    with pytest.raises(contexture.FrameworkVersionError) as caught:
        require("langchain", (1, 0), "langchain")
    assert str(caught.value) == (
        "this adapter needs langchain 1.0 or newer, and 0.3.27 is installed: run "
        "`pip install 'contexture-ai[langchain]'`"
    )
    with pytest.raises(ImportError, match=r"langchain 1\.0 or newer"):
        importlib.reload(adapter)
    monkeypatch.undo()
    with pytest.raises(contexture.FrameworkVersionError, match="is not installed"):
        require("no-such-framework", (1, 0), "x")


def test_a_tree_without_a_model_to_continue_it(own_client: contexture.Client) -> None:
    tree = {"id": "t", "mode": "dialogue"}
    node = {"id": "n", "author": "human", "content": "Go on."}
    own_client.import_tree(tree=tree, nodes=[node], edges=[])
    with pytest.raises(contexture.ApiError, match="no model is configured") as caught:
        next(own_client.continue_tree("t", head="n", samples=2))
    assert caught.value.status == 422
    # The body of a call with a streamed answer is sent.
    with pytest.raises(contexture.ApiError) as caught:
        next(own_client.continue_tree("t", samples=99))
    assert caught.value.field == "samples"


def test_settings_that_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="url cannot be combined"):
        contexture.Client("http://127.0.0.1:1", root=".")
