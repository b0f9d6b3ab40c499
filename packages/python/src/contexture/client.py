"""The clients: :class:`Client` and :class:`AsyncClient`.

Both have one method per operation of the server's API. Without an address they start a local
server with the first call and stop it with :meth:`Client.close`, or when the process ends.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from types import TracebackType
from typing import Any

import httpx

from . import _transport as transport
from ._operations import AsyncOperations, Operations
from .errors import ServerUnavailableError
from .server import LocalServer, _Path

_TIMEOUT = 60.0


class _Connection:
    """The server that a client calls: one that was named, or a local one."""

    def __init__(
        self,
        url: str | None,
        api_key: str | None,
        root: _Path | None,
        db: str | None,
        server: LocalServer | None,
    ) -> None:
        url = url or (None if root or db or server else transport.url_from_environment())
        if url and (root or db or server):
            raise ValueError("url cannot be combined with root, db or server")
        self.named = url.rstrip("/") if url else None
        self.server = None if url else server or LocalServer(root, db=db)
        self.owns_server = server is None
        self.headers = transport.headers(api_key or transport.key_from_environment())
        self.versions = transport.VersionCheck()

    def url(self) -> str:
        if self.server is not None:
            return self.server.url()
        return self.named or ""

    def failed(self, error: httpx.TransportError) -> ServerUnavailableError:
        """Returns what to raise when a call got no answer."""
        reason = str(error) or type(error).__name__
        # A process that was killed closes its connections before it counts as ended.
        if self.server is not None and self.server.wait_for_exit(0.5):
            return ServerUnavailableError(
                f"the local server ended during the call ({reason}): the next call starts it again"
            )
        where = self.named or "the local server"
        return ServerUnavailableError(f"no answer from {where}: {reason}")

    def close(self) -> None:
        if self.server is not None and self.owns_server:
            self.server.stop()


class Client(Operations):
    """A client whose methods wait for the answer. It can be used from several threads.

    ```python
    with Client() as client:
        client.record_text(source="notes", text="The dog is called Rufus.")
        print(client.recall(query="What is the dog called?", max_tokens=500).content)
    ```
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        root: _Path | None = None,
        db: str | None = None,
        server: LocalServer | None = None,
        timeout: float = _TIMEOUT,
    ) -> None:
        """Names the server, or the directory of a local one.

        `url` is the address of a server (default: `CONTEXTURE_URL`). Without one, a local server
        is started for `root` (default: the current directory) and `db` (default: a file in
        `root`). `api_key` is the key of the server (default: `CONTEXTURE_API_KEY`).
        """
        self._connection = _Connection(url, api_key, root, db, server)
        self._timeout = timeout
        self._http: httpx.Client | None = None
        self._http_url = ""
        self._owner = os.getpid()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections and stops the local server. The client can be used again."""
        http, self._http = self._http, None
        if http is not None and self._owner == os.getpid():
            http.close()
        self._connection.close()

    @property
    def server(self) -> LocalServer | None:
        """The local server, or None if the client calls a server that was named."""
        return self._connection.server

    def _client(self) -> httpx.Client:
        url = self._connection.url()
        http = self._http
        # A forked child has connections of its own: answers on shared ones would get mixed up.
        if http is None or url != self._http_url or self._owner != os.getpid():
            self._owner = os.getpid()
            http = httpx.Client(
                base_url=url,
                headers=self._connection.headers,
                timeout=self._timeout,
                trust_env=transport.uses_proxies(url),
            )
            self._http, self._http_url = http, url
        return http

    def _call(
        self,
        method: str,
        path: str,
        answer: Any,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        client = self._client()
        try:
            response = client.request(method, path, params=query, json=body, headers=headers)
        except httpx.TransportError as error:
            raise self._connection.failed(error) from error
        return transport.read(response, answer, self._connection.versions)

    def _stream(self, method: str, path: str, *, body: Any = None) -> Iterator[dict[str, Any]]:
        client = self._client()
        timeout = httpx.Timeout(self._timeout, read=None)
        try:
            with client.stream(method, path, json=body, timeout=timeout) as got:
                if got.is_error:
                    got.read()
                    raise transport.api_error(got, self._connection.versions)
                for line in got.iter_lines():
                    data = transport.line_data(line)
                    if data is not None:
                        yield data
        except httpx.TransportError as error:
            raise self._connection.failed(error) from error


class AsyncClient(AsyncOperations):
    """A client whose methods are awaited.

    It can be used from several event loops, one after the other: each loop has its own
    connections.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        root: _Path | None = None,
        db: str | None = None,
        server: LocalServer | None = None,
        timeout: float = _TIMEOUT,
    ) -> None:
        """Names the server, or the directory of a local one, as for :class:`Client`."""
        self._connection = _Connection(url, api_key, root, db, server)
        self._timeout = timeout
        self._http: httpx.AsyncClient | None = None
        self._http_url = ""
        self._owner = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections and stops the local server. The client can be used again."""
        http, self._http = self._http, None
        # The connections of another loop, which may be closed, cannot be closed in this one.
        is_own = self._owner == os.getpid()
        if http is not None and is_own and self._loop is asyncio.get_running_loop():
            await http.aclose()
        await asyncio.to_thread(self._connection.close)

    @property
    def server(self) -> LocalServer | None:
        """The local server, or None if the client calls a server that was named."""
        return self._connection.server

    async def _client(self) -> httpx.AsyncClient:
        server = self._connection.server
        # Starting a process takes a moment in which the loop goes on.
        if server is not None and not server.is_running():
            url = await asyncio.to_thread(server.url)
        else:
            url = self._connection.url()
        loop = asyncio.get_running_loop()
        http = self._http
        is_own = self._owner == os.getpid() and loop is self._loop
        if http is None or not is_own or url != self._http_url:
            self._owner = os.getpid()
            http = httpx.AsyncClient(
                base_url=url,
                headers=self._connection.headers,
                timeout=self._timeout,
                trust_env=transport.uses_proxies(url),
            )
            self._http, self._http_url, self._loop = http, url, loop
        return http

    async def _call(
        self,
        method: str,
        path: str,
        answer: Any,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        client = await self._client()
        try:
            response = await client.request(method, path, params=query, json=body, headers=headers)
        except httpx.TransportError as error:
            raise await asyncio.to_thread(self._connection.failed, error) from error
        return transport.read(response, answer, self._connection.versions)

    async def _stream(
        self, method: str, path: str, *, body: Any = None
    ) -> AsyncIterator[dict[str, Any]]:
        client = await self._client()
        timeout = httpx.Timeout(self._timeout, read=None)
        try:
            async with client.stream(method, path, json=body, timeout=timeout) as got:
                if got.is_error:
                    await got.aread()
                    raise transport.api_error(got, self._connection.versions)
                async for line in got.aiter_lines():
                    data = transport.line_data(line)
                    if data is not None:
                        yield data
        except httpx.TransportError as error:
            raise await asyncio.to_thread(self._connection.failed, error) from error
