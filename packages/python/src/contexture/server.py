"""A local server: a `contexture serve` process that ends with this process."""

from __future__ import annotations

import atexit
import collections
import contextlib
import os
import re
import subprocess
import threading
import time
import weakref
from types import TracebackType
from typing import IO

from ._binary import find_binary
from .errors import ServerStartError

_NEW_GROUP: int = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
_SERVING = re.compile(rb"^serving on (http://\S+)")

# A forked child must not keep the server of its parent alive: it closes its copy of the pipe that
# the server watches.
_servers: weakref.WeakSet[LocalServer] = weakref.WeakSet()


def _leave_to_parent() -> None:
    for server in list(_servers):
        server._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)

_Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class LocalServer:
    """A `contexture serve` process on a free port of this machine.

    The process stops with :meth:`stop`, at the end of this process, and also if this process is
    killed: it watches its standard input.
    """

    def __init__(
        self,
        root: _Path | None = None,
        *,
        db: str | None = None,
        port: int = 0,
        binary: str | None = None,
        start_timeout: float = 30.0,
    ) -> None:
        """Describes a server. It starts with the first use of :meth:`url`.

        `root` is the directory of the project (default: the current directory), `db` the store,
        `port` the port (default: a free one), `binary` the command (default: the installed one).
        """
        self._root = root
        self._db = db
        self._port = port
        self._binary = binary
        self._start_timeout = start_timeout
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._url = ""
        self._printed: collections.deque[bytes] = collections.deque(maxlen=20)
        _servers.add(self)

    def _forget(self) -> None:
        """Leaves the process to the parent of this process, without waiting for it."""
        # A thread of the parent may hold the lock, and does not exist here.
        self._lock = threading.Lock()
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            # Python warns about processes that nobody waited for, and must not wait here.
            process.returncode = 0
            with contextlib.suppress(OSError):
                process.stdin.close()
        atexit.unregister(self.stop)

    def url(self) -> str:
        """Returns the address of the server. Starts the server if it does not run."""
        with self._lock:
            if not self._runs():
                self._start()
            return self._url

    def is_running(self) -> bool:
        """Returns true if the process runs."""
        with self._lock:
            return self._runs()

    def wait_for_exit(self, seconds: float) -> bool:
        """Waits until the process has ended. Returns false if it still runs after `seconds`."""
        process = self._process
        if process is None or self._owner != os.getpid():
            return True
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    @property
    def pid(self) -> int | None:
        """The id of the process, or None if it does not run."""
        with self._lock:
            return self._process.pid if self._process and self._runs() else None

    def stop(self) -> None:
        """Stops the server after it has completed the accepted requests."""
        with self._lock:
            process, self._process = self._process, None
            # A forked child must not stop the server of its parent.
            if process is None or self._owner != os.getpid():
                return
            atexit.unregister(self.stop)
            if process.stdin:
                process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def __enter__(self) -> LocalServer:
        self.url()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _runs(self) -> bool:
        return (
            self._process is not None
            and self._owner == os.getpid()
            and self._process.poll() is None
        )

    def _start(self) -> None:
        command: list[str | bytes] = [self._binary or find_binary(), "serve", "--stop-with-stdin"]
        command += ["--addr", f"127.0.0.1:{self._port}"]
        root = os.fspath(self._root) if self._root is not None else os.getcwd()
        command += ["--root", root]
        if self._db is not None:
            command += ["--db", self._db]
        environment = dict(os.environ)
        # The log is only read when the server fails.
        environment.setdefault("CONTEXTURE_SERVER_LOG", "error")
        self._printed.clear()
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=environment,
                # Ctrl-C at a terminal is for this process, which may still need the server.
                start_new_session=True,
                creationflags=_NEW_GROUP,
            )
        except OSError as error:
            raise ServerStartError(f"cannot run {command[0]!r}: {error}") from error
        found = threading.Event()
        address: list[str] = []
        assert process.stderr is not None
        reader = threading.Thread(
            target=self._read, args=(process.stderr, address, found), daemon=True
        )
        reader.start()
        deadline = time.monotonic() + self._start_timeout
        while not found.wait(0.05):
            if process.poll() is not None:
                # What it printed last is still to be read.
                reader.join(1)
                break
            if time.monotonic() > deadline:
                process.kill()
                break
        if not address:
            process.kill()
            process.wait()
            if process.stdin:
                process.stdin.close()
            printed = b"".join(self._printed).decode("utf-8", "replace").strip()
            note = ""
            if self._root is None and not os.access(root, os.W_OK):
                note = f" [{root!r} is not writable: use Client(root=…) with another directory]"
            raise ServerStartError(
                f"`contexture serve` did not start: {printed or 'it printed nothing'}{note}"
            )
        self._process, self._owner, self._url = process, os.getpid(), address[0]
        atexit.register(self.stop)

    def _read(self, printed: IO[bytes], address: list[str], found: threading.Event) -> None:
        """Reads until the process ends, so that it never waits for a reader."""
        with printed:
            for line in printed:
                self._printed.append(line)
                match = _SERVING.match(line)
                if match and not address:
                    address.append(match.group(1).decode())
                    found.set()
