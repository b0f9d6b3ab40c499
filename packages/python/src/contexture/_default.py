"""The clients that functions and adapters use when none is given."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading

from ._transport import url_from_environment
from .client import AsyncClient, Client
from .server import LocalServer

_lock = threading.Lock()
_client: Client | None = None
_async_client: AsyncClient | None = None
_server: LocalServer | None = None


_temporary: LocalServer | None = None


def _shared_server() -> LocalServer | None:
    """Returns the local server of both clients, unless the environment names a server."""
    global _server
    if url_from_environment():
        return None
    if _server is None:
        _server = LocalServer()
    return _server


def _temporary_server() -> LocalServer:
    """Returns a server whose store is in a temporary directory, for calls that store nothing."""
    global _temporary
    if _temporary is None:
        root = tempfile.mkdtemp(prefix="contexture-")
        atexit.register(shutil.rmtree, root, ignore_errors=True)
        _temporary = LocalServer(root)
    return _temporary


def _needs_temporary(is_stateless: bool) -> bool:
    if not is_stateless or url_from_environment():
        return False
    store = os.path.join(os.getcwd(), ".contexture")
    return not os.access(store if os.path.exists(store) else os.getcwd(), os.W_OK)


def default_client(is_stateless: bool = False) -> Client:
    """Returns the client of this process, which starts a local server unless one is named.

    A call that stores nothing works in a directory that cannot be written, too.
    """
    global _client
    with _lock:
        if _client is None and _needs_temporary(is_stateless):
            return Client(server=_temporary_server())
        if _client is None:
            _client = Client(server=_shared_server())
        return _client


def default_async_client(is_stateless: bool = False) -> AsyncClient:
    """Returns the asynchronous client of this process. It shares the local server."""
    global _async_client
    with _lock:
        if _async_client is None and _needs_temporary(is_stateless):
            return AsyncClient(server=_temporary_server())
        if _async_client is None:
            _async_client = AsyncClient(server=_shared_server())
        return _async_client
