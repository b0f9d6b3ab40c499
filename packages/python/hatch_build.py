"""Adds the `contexture` command to the wheel.

`CONTEXTURE_BINARY` names the command and `CONTEXTURE_WHEEL_TAG` the platform, such as
`py3-none-manylinux_2_28_x86_64`. Without `CONTEXTURE_BINARY` the wheel is pure Python: the client
then needs a server, or a command that is installed in another way.
"""

from __future__ import annotations

import os
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    """Puts the command where installers put scripts."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the command, unless the package is installed for development."""
        binary = os.environ.get("CONTEXTURE_BINARY")
        if not binary or version == "editable":
            return
        if not os.path.isfile(binary):
            raise FileNotFoundError(f"CONTEXTURE_BINARY is {binary}, which is not a file")
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        name = "contexture.exe" if binary.endswith(".exe") else "contexture"
        build_data["shared_scripts"] = {binary: name}
        build_data["pure_python"] = False
        build_data["tag"] = os.environ.get("CONTEXTURE_WHEEL_TAG", f"py3-none-{platform}")
