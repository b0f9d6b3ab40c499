"""A server for all tests, and recorded agent runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import contexture

REPOSITORY = Path(__file__).parents[3]


def _binary() -> str:
    """Returns the command to test: CONTEXTURE_BIN, or the one that cargo built."""
    named = os.environ.get("CONTEXTURE_BIN")
    if named:
        return named
    built = [REPOSITORY / "target" / kind / "contexture" for kind in ("debug", "release")]
    found = [path for path in built if path.exists()]
    if not found:
        raise FileNotFoundError("build the command first: cargo build -p contexture-cli")
    return str(max(found, key=lambda path: path.stat().st_mtime))


os.environ["CONTEXTURE_BIN"] = _binary()
for name in ("CONTEXTURE_URL", "CONTEXTURE_API_KEY", "CONTEXTURE_ROOT", "CONTEXTURE_DB"):
    os.environ.pop(name, None)


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[contexture.LocalServer]:
    """A server with an empty root, for tests that store nothing."""
    with contexture.LocalServer(tmp_path_factory.mktemp("shared")) as server:
        yield server


@pytest.fixture
def client(shared_server: contexture.LocalServer) -> Iterator[contexture.Client]:
    """A client of the shared server."""
    with contexture.Client(server=shared_server) as client:
        yield client


@pytest.fixture
def own_client(tmp_path: Path) -> Iterator[contexture.Client]:
    """A client with a server and a store of its own."""
    with contexture.Client(root=tmp_path) as client:
        yield client
