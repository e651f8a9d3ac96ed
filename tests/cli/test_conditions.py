"""A machine that is not as one expects: each command works all the same, or ends with one line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

RANK = "-q rank mat_naive -g a100-pcie-40gb -m roofline --top 1 --csv"  # a model that soon compiles
WORKS = {  # two at a time where neither hides the other
    "cache: a file; no folder for temporary files, no input": (
        "touch c; export DSE_CACHE=c TMPDIR=/nonexistent; exec <&-"
    ),
    "cache: quotes, lines and no UTF-8": r"export DSE_CACHE=$'a b\"\n\xff'",
    "cache: damaged": (
        "cp -r $DSE_CACHE c; export DSE_CACHE=c; for f in $(find c/jax* -type f); do echo x > $f; done"
    ),
    "no home, strict, no asserts": "unset HOME DSE_CACHE; export PYTHONWARNINGS=error PYTHONOPTIMIZE=2",
    "no folder, no rights": "mkdir gone; cd gone; rmdir ../gone; umask 777",
    "no place for errors, few files": "exec 2>/dev/full; ulimit -n 20",
}
REFUSED = {
    "cache: of all": ("mkdir -m 777 c; export DSE_CACHE=c", "c: found a folder that all may write to"),
    "full": ("exec >/dev/full", "standard output: cannot write: No space left on device"),
    "no such GPU": ("export JAX_PLATFORMS=cuda", "environment: found JAX_PLATFORMS=cuda, expected another"),
    "no such device": (
        "export JAX_PLATFORMS=nonsense",
        "environment: found JAX_PLATFORMS=nonsense, expected another value",
    ),
    "a setting of JAX": ("export JAX_ENABLE_X64=abc", "environment: found JAX_ENABLE_X64=abc, expected"),
    # Compiling the simulator takes many times the limit on any machine.
    "little time": ("ulimit -S -t 1; DSE+=' -m pipeline'", "time: found the limit of processor time"),
    "little memory": (  # in which there is help all the same
        "ulimit -v 1200000; $DSE --help > help || exit 1",
        "memory: found a limit of 1.23 GB (ulimit -v), expected 2 GB",
    ),
    "little data": ("ulimit -d 200000", "memory: found a limit of 0.205 GB (ulimit -d), expected 1 GB"),
    "no folder to write in": (
        "mkdir gone; cd gone; rmdir ../gone; DSE+=' -o t.csv'",
        "current folder: found none, expected one that is still there",
    ),
}


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> tuple[Path, str]:
    """What each case's command compiles, unless it has a cache of its own, and what it prints."""
    folder = tmp_path_factory.mktemp("cache")
    ended = ran("true", folder, folder / "cache")
    assert (ended.returncode, len(ended.stdout.splitlines())) == (0, 2)
    return folder / "cache", ended.stdout


def ran(before: str, folder: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """Run the command in a shell that has made the machine so."""
    environment = {**os.environ, "DSE_CACHE": str(cache)}
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_PLATFORMS"):
        environment.pop(name, None)
    environment["DSE"] = f"{sys.executable} -m dse {RANK}"
    command = ["bash", "-c", f"{before}\n$DSE"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("before", WORKS.values(), ids=WORKS)
def test_works(before, tmp_path, first):
    ended = ran(before, tmp_path, first[0])
    assert (ended.returncode, ended.stderr, ended.stdout) == (0, "", first[1])


@pytest.mark.parametrize(("before", "message"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_is_one_line(before, message, tmp_path, first):
    ended = ran(before, tmp_path, first[0])
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"dse: {message}")
    assert len(ended.stderr.splitlines()) == 1
