"""The versions of all packages are the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

from contexture import __version__

REPOSITORY = Path(__file__).parents[3]


def test_all_versions_are_the_same() -> None:
    cargo = (REPOSITORY / "Cargo.toml").read_text("utf-8")
    workspace = re.search(r'\[workspace\.package\]\nversion = "(.*)"', cargo)
    python = (REPOSITORY / "packages/python/pyproject.toml").read_text("utf-8")
    project = re.search(r'^version = "(.*)"', python, re.MULTILINE)
    typescript = (REPOSITORY / "packages/typescript/src/version.ts").read_text("utf-8")
    npm = json.loads((REPOSITORY / "packages/typescript/package.json").read_text("utf-8"))
    assert workspace
    assert project
    found = {workspace.group(1), project.group(1), npm["version"], __version__}
    assert len(found) == 1
    assert f'VERSION = "{__version__}"' in typescript
