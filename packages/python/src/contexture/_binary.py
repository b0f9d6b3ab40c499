"""Finds the `contexture` command."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import sysconfig

from .errors import BinaryNotFoundError

_NAME = "contexture.exe" if sys.platform == "win32" else "contexture"


def find_binary() -> str:
    """Returns the path of the `contexture` command.

    It is searched in `CONTEXTURE_BIN`, where this package installs it, and in `PATH`.
    """
    named = os.environ.get("CONTEXTURE_BIN")
    if named:
        if not os.path.isfile(named):
            raise BinaryNotFoundError(
                f"CONTEXTURE_BIN is {named}, which is not a file: set it to the path of the "
                "`contexture` command, or unset it"
            )
        return named
    for directory in _directories():
        path = os.path.join(directory, _NAME)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    found = shutil.which("contexture")
    if found:
        return found
    raise BinaryNotFoundError(
        f"this installation of contexture-ai has no `contexture` command for {platform.system()} "
        f"{platform.machine()}: build it with `cargo install --git` from the repository and set "
        "CONTEXTURE_BIN to its path, or name a server with Client(url) or CONTEXTURE_URL"
    )


def _directories() -> list[str]:
    """Returns the directories that installers put scripts into."""
    directories = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    user = sysconfig.get_preferred_scheme("user")
    directories.append(sysconfig.get_path("scripts", scheme=user))
    # `pip install --target DIR` puts scripts into DIR/bin.
    package = os.path.dirname(os.path.abspath(__file__))
    directories.append(os.path.join(os.path.dirname(package), "bin"))
    return [directory for directory in directories if directory]
