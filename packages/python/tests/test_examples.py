"""The examples run, and the README shows parts of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1]
PRINTED = {
    "anthropic_memory_tool.py": "1\tThe dog is called Rufus.",
    "langchain_agent.py": "True",
    "langgraph_store.py": "The dog is called Rufus.",
    "llama_index_memory.py": "My dog is called Rufus.",
    "memory.py": "The dog is called Rufus.",
    "openai_agents_session.py": "My dog is called Rufus.",
    "plain_openai.py": "402 messages became",
    "pydantic_ai_history.py": "I was sent",
}


def examples() -> list[Path]:
    return sorted(path for path in (PACKAGE / "examples").glob("*.py") if path.stem != "standin")


@pytest.mark.parametrize("example", examples(), ids=lambda path: path.stem)
def test_an_example_runs(example: Path, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert PRINTED[example.name] in ran.stdout


@pytest.mark.parametrize("readme", [PACKAGE / "README.md", PACKAGE.parents[1] / "README.md"])
def test_the_readme_shows_what_runs(readme: Path) -> None:
    shown = re.findall(r"```python\n(.*?)```", readme.read_text("utf-8"), re.DOTALL)
    assert shown
    programs = [path.read_text("utf-8") for path in examples()]
    for block in shown:
        assert any(block in program for program in programs), block
