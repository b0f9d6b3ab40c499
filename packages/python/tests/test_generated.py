"""The generated code is current, and other generators understand the document."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

import contexture

PACKAGE = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def document(
    shared_server: contexture.LocalServer, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_text(httpx.get(f"{shared_server.url()}/openapi.json", trust_env=False).text, "utf-8")
    return path


def test_the_generated_code_is_current(document: Path, tmp_path: Path) -> None:
    script = PACKAGE / "scripts" / "generate.py"
    subprocess.run([sys.executable, str(script), str(document), str(tmp_path)], check=True)
    for name in ("models.py", "_operations.py"):
        generated = (tmp_path / name).read_text("utf-8")
        kept = (PACKAGE / "src" / "contexture" / name).read_text("utf-8")
        assert generated == kept, f"{name} is not current: run packages/generate"


def test_a_client_of_openapi_python_client(
    document: Path, tmp_path: Path, own_client: contexture.Client
) -> None:
    """The client is generated without options, and used."""
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--path", str(document)]
    ran = subprocess.run(
        [*command, "--output-path", str(tmp_path / "generated")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Unable to process schema" not in ran.stdout + ran.stderr
    sys.path.insert(0, str(tmp_path / "generated"))
    try:
        use_generated(own_client)
    finally:
        sys.path.pop(0)


def use_generated(own_client: contexture.Client) -> None:
    from importlib import import_module

    def module(name: str) -> Any:
        return import_module(f"contexture_client{name}")

    def call(name: str, *path: str, **body: Any) -> Any:
        return module(f".api.{name}").sync(*path, client=client, **body)

    models = module(".models")
    assert own_client.server is not None
    client = module("").Client(base_url=own_client.server.url(), raise_on_unexpected_status=True)
    messages = [{"role": "user", "content": "hello"}]
    body = {"messages": messages, "model": "gpt-5.6"}
    own = call("assemble.assemble", body=models.AssembleRequest.from_dict(body))
    assert type(own).__name__ == "Assembled"
    body["format"] = "anthropic"
    rendered = call("assemble.assemble", body=models.AssembleRequest.from_dict(body))
    assert type(rendered).__name__ == "RenderedRequest"
    call("sessions.create_session", body=models.NewSession(label="s"))
    turn = {
        "messages": [
            *messages,
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "ok"},
                    {"type": "tool_call", "id": "c1", "name": "x", "arguments": {"a": 1}},
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "r"},
        ]
    }
    recorded = call("sessions.record_turn", "s", body=models.NewTurn.from_dict(turn))
    assert recorded.number == 1
    history = call("sessions.get_history", "s")
    assert history.turns[0].messages[1].content[1].name == "x"
    record = {"kind": "event", "content": "The dog is called Rufus."}
    call("memory.record_memory", body=models.NewRecords.from_dict({"records": [record]}))
    found = call("memory.recall", body=models.RecallRequest(max_tokens=500, query="dog"))
    assert "Rufus" in found.content
    request = {"request": {"model": "gpt-5.6", "messages": messages}}
    fitted = call("fit.fit", body=models.FitRequest.from_dict(request))
    assert fitted.request.to_dict() == json.loads(json.dumps(request["request"]))
