"""Scripts as a user runs them."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def run_script(request: pytest.FixtureRequest) -> Callable[..., str]:
    """`run_script("--json")`: what `SCRIPT` prints in a process of its own, which must not fail."""
    command = [sys.executable, str(SCRIPTS / f"{request.module.SCRIPT}.py")]

    def run(*arguments: str) -> str:
        ended = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    return run
