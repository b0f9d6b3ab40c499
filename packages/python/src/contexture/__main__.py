"""Runs the `contexture` command: `python -m contexture`."""

import sys

from ._command import main

sys.exit(main())
