"""The command `contexture-ai`, which `uvx contexture-ai` runs: it runs `contexture`."""

from __future__ import annotations

import os
import subprocess
import sys

from ._binary import find_binary
from .errors import BinaryNotFoundError


def main() -> int:
    """Replaces this process by `contexture`, with the same arguments."""
    try:
        binary = find_binary()
    except BinaryNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    arguments = [binary, *sys.argv[1:]]
    if sys.platform == "win32":
        # Windows has no exec: the shell would not wait for the new process.
        return subprocess.call(arguments)
    os.execv(binary, arguments)
    raise AssertionError("execv does not return")
