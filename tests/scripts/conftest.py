"""Scripts as modules, and as a user runs them."""

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture(scope="module")
def script(request: pytest.FixtureRequest) -> ModuleType:
    """The module of `SCRIPT = "bench/sweep"` in a file of tests."""
    path = SCRIPTS / f"{request.module.SCRIPT}.py"
    sys.path.insert(0, str(path.parent))
    try:
        return importlib.import_module(path.stem)
    finally:
        sys.path.remove(str(path.parent))


@pytest.fixture
def run_script(request: pytest.FixtureRequest) -> Callable[..., str]:
    """`run_script("--json")`: what `SCRIPT` prints in a process of its own, which must not fail."""
    command = [sys.executable, str(SCRIPTS / f"{request.module.SCRIPT}.py")]

    def run(*arguments: str) -> str:
        ended = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    return run
