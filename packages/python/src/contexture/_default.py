"""The clients that functions and adapters use when none is given."""

from __future__ import annotations

import threading

from ._transport import url_from_environment
from .client import AsyncClient, Client
from .server import LocalServer

_lock = threading.Lock()
_client: Client | None = None
_async_client: AsyncClient | None = None
_server: LocalServer | None = None


def _shared_server() -> LocalServer | None:
    """Returns the local server of both clients, unless the environment names a server."""
    global _server
    if url_from_environment():
        return None
    if _server is None:
        _server = LocalServer()
    return _server


def default_client() -> Client:
    """Returns the client of this process, which starts a local server unless one is named."""
    global _client
    with _lock:
        if _client is None:
            _client = Client(server=_shared_server())
        return _client


def default_async_client() -> AsyncClient:
    """Returns the asynchronous client of this process. It shares the local server."""
    global _async_client
    with _lock:
        if _async_client is None:
            _async_client = AsyncClient(server=_shared_server())
        return _async_client
