"""Anthropic's memory tool, with the files in Contexture's memory.

```python
from contexture.anthropic_memory import ContextureMemoryTool

client.beta.messages.run_tools(model="claude-sonnet-5-5", tools=[ContextureMemoryTool()], …)
```

Claude reads and writes files below `/memories`. Each file is a memory record, so that searches and
other requests find it.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any
from urllib.parse import quote

from ._require import require

require("anthropic", (0, 84), "anthropic")

from anthropic.lib.tools import BetaAbstractMemoryTool, ToolError  # noqa: E402
from anthropic.types.beta import (  # noqa: E402
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)

from . import models  # noqa: E402
from ._default import default_client  # noqa: E402
from .client import Client  # noqa: E402
from .errors import ApiError  # noqa: E402

_ROOT = "/memories"


class ContextureMemoryTool(BetaAbstractMemoryTool):
    """The memory tool. Its files are records of Contexture's memory."""

    def __init__(
        self, *, name: str = "default", client: Client | None = None, **options: Any
    ) -> None:
        """Opens the files of `name`, such as a user. Tools with other names see other files."""
        super().__init__(**options)
        self._prefix = f"memory-tool/{quote(name, safe='')}"
        self._given = client

    @property
    def _client(self) -> Client:
        return self._given or default_client()

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Returns a file with line numbers, or the files of a directory."""
        path = _path(command.path)
        text = self._read(path)
        if text is None:
            return self._listing(path, command.path)
        lines = text.split("\n")
        start, end = 1, len(lines)
        if command.view_range and len(command.view_range) == 2:
            start = max(1, command.view_range[0])
            end = end if command.view_range[1] == -1 else command.view_range[1]
        shown = _numbered(lines, start, end)
        return f"Here's the content of {command.path} with line numbers:\n{shown}"

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Creates a file."""
        path = _path(command.path)
        if path == _ROOT or self._files(path) or self._read(path) is not None:
            raise ToolError(f"File {command.path} already exists")
        self._check_parents(path)
        self._write(path, command.file_text)
        return f"File created successfully at: {command.path}"

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replaces a text that occurs once in a file."""
        path, text = self._existing(command.path)
        found = [match.start() for match in re.finditer(re.escape(command.old_str), text)]
        if not found:
            raise ToolError(
                f"No replacement was performed, old_str `{command.old_str}` did not appear "
                f"verbatim in {command.path}."
            )
        if len(found) > 1:
            lines = ", ".join(str(text.count("\n", 0, at) + 1) for at in found)
            raise ToolError(
                f"No replacement was performed. Multiple occurrences of old_str "
                f"`{command.old_str}` in lines: {lines}. Please ensure it is unique"
            )
        line = text[: text.index(command.old_str)].count("\n") + 1
        text = text.replace(command.old_str, command.new_str)
        self._write(path, text)
        rows = text.split("\n")
        shown = _numbered(rows, max(1, line - 2), min(len(rows), line + 2))
        return (
            "The memory file has been edited. Here is the snippet showing the change (with line "
            f"numbers):\n{shown}"
        )

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Inserts a text after a line of a file."""
        path, text = self._existing(command.path)
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        if not 0 <= command.insert_line <= len(lines):
            raise ToolError(
                f"Invalid `insert_line` parameter: {command.insert_line}. It should be within the "
                f"range [0, {len(lines)}]."
            )
        lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
        self._write(path, "\n".join(lines) + "\n")
        return f"The file {command.path} has been edited."

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Deletes a file, or a directory with its files. No copy stays in the store."""
        path = _path(command.path)
        if path == _ROOT:
            raise ToolError("Cannot delete the /memories directory itself")
        found = [path] if self._read(path) is not None else list(self._files(path))
        if not found:
            raise ToolError(f"The path {command.path} does not exist")
        for file in found:
            self._client.forget_record(self._id(file))
        return f"Successfully deleted {command.path}"

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Renames a file or a directory."""
        old, new = _path(command.old_path), _path(command.new_path)
        if old == _ROOT:
            raise ToolError("Cannot rename the /memories directory itself")
        if self._read(new) is not None or self._files(new):
            raise ToolError(f"The destination {command.new_path} already exists")
        if new.startswith(f"{old}/"):
            raise ToolError(f"Cannot move {command.old_path} into itself: {command.new_path}")
        text = self._read(old)
        files = {old: text} if text is not None else self._files(old)
        if not files:
            raise ToolError(f"The path {command.old_path} does not exist")
        self._check_parents(new)
        for path, content in files.items():
            self._write(new + path[len(old) :], content)
            self._client.forget_record(self._id(path))
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    def clear_all_memory(self) -> str:
        """Deletes all files."""
        for path in self._files(_ROOT):
            self._client.forget_record(self._id(path))
        return "All memory cleared"

    def _id(self, path: str) -> str:
        return self._prefix + path

    def _existing(self, named: str) -> tuple[str, str]:
        path = _path(named)
        text = self._read(path)
        if text is None:
            if path == _ROOT or self._files(path):
                raise ToolError(f"The path {named} is not a file.")
            raise ToolError(f"The path {named} does not exist. Please provide a valid path.")
        return path, text

    def _check_parents(self, path: str) -> None:
        """Raises an error if a file has the name of a directory that the path needs."""
        parent = posixpath.dirname(path)
        while parent != _ROOT:
            if self._read(parent) is not None:
                raise ToolError(f"{parent} is a file, not a directory")
            parent = posixpath.dirname(parent)

    def _read(self, path: str) -> str | None:
        try:
            found = self._client.get_record(self._id(path))
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        for record in found.records:
            if isinstance(record, models.RecordEventOutput) and isinstance(record.content, dict):
                return str(record.content["text"])
        return None

    def _write(self, path: str, text: str) -> None:
        record = {
            "kind": "event",
            "id": self._id(path),
            "type": "memory-file",
            "source": path,
            "content": {"path": path, "text": text},
        }
        try:
            self._client.record_memory(records=[record])
        except ApiError as error:
            if error.status != 422:
                raise
            raise ToolError(f"Cannot write {path}: {error.message}") from error

    def _files(self, directory: str) -> dict[str, str]:
        """Returns the files below a directory, by path."""
        below = self._id(directory.rstrip("/")) + "/"
        found = {
            record["id"][len(self._prefix) :]: str(record["content"]["text"])
            for record in self._client.export_memory()
            if record.get("kind") == "event" and record["id"].startswith(below)
        }
        return dict(sorted(found.items()))

    def _listing(self, path: str, named: str) -> str:
        files = self._files(path)
        if not files and path != _ROOT:
            raise ToolError(f"The path {named} does not exist. Please provide a valid path.")
        sizes: dict[str, int] = {}
        for file, text in files.items():
            parts = file[len(path) :].strip("/").split("/")
            if any(part.startswith(".") for part in parts):
                continue
            for depth in range(1, min(len(parts), 2) + 1):
                name = "/".join(parts[:depth]) + ("/" if depth < len(parts) else "")
                sizes[name] = sizes.get(name, 0) + len(text.encode())
        lines = [f"{_size(sum(len(text.encode()) for text in files.values()))}\t{named}"]
        lines += [f"{_size(size)}\t{path}/{name}" for name, size in sorted(sizes.items())]
        return (
            "Here're the files and directories up to 2 levels deep in "
            f"{named}, excluding hidden items:\n" + "\n".join(lines)
        )


def _path(named: str) -> str:
    """Returns a path in its shortest form. Only paths below `/memories` are accepted."""
    if "\0" in named:
        raise ToolError("A path cannot contain a NUL character")
    path = posixpath.normpath(named)
    if named.startswith(f"{_ROOT}/") and not f"{path}/".startswith(f"{_ROOT}/"):
        raise ToolError(f"Path {named} would escape {_ROOT} directory")
    if path != _ROOT and not path.startswith(f"{_ROOT}/"):
        raise ToolError(f"Path must start with {_ROOT}, got: {named}")
    return path


def _numbered(lines: list[str], start: int, end: int) -> str:
    shown = enumerate(lines[start - 1 : end], start)
    return "\n".join(f"{number:>6}\t{line}" for number, line in shown)


def _size(size: int) -> str:
    if size < 1024:
        return f"{size}B"
    return f"{size / 1024:.1f}K" if size < 1024**2 else f"{size / 1024**2:.1f}M"
