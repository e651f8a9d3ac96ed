"""A clang that compiles for AMD GPUs: $DSE_CLANG's, ROCm's, that of the wheel `ziglang` or the system's.

Which instructions a kernel becomes, and how many registers it takes, hangs on the compiler's version: where
times were or will be measured with a ROCm of some year, name its clang.

It runs in a process of its own, which may take only so long and so much memory. It reads the source from its
standard input, and finds headers in the folders that it is given and in none of the system's.
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from dse.cuda.extra import install
from dse.errors import DseError

NAMED = "DSE_CLANG"  # a command: "/opt/rocm/llvm/bin/clang", or "/somewhere/ziglang/zig clang"
_VERSION = r"clang version (\d+\.\d+\.\d+)"
SECONDS = 300  # that a configuration may take
BYTES = 8 << 30  # of addresses


@dataclass(frozen=True)
class Clang:
    """A compiler and its version."""

    command: tuple[str, ...]
    version: str  # "clang 22.1.8"


@cache
def clang() -> Clang:
    """Find the compiler.

    **Raises:** DseError if there is none with the target, or it does not start.
    """
    commands: list[tuple[str, ...]] = []
    if (named := os.environ.get(NAMED)) is not None:
        commands.append(tuple(shlex.split(named)))
        if not (found := re.search(_VERSION, _asked((*commands[0], "--version")))):
            raise DseError(f"{NAMED}: found {named!r}, expected the path of a clang")
        return Clang(commands[0], f"clang {found[1]}")
    if (hipcc := shutil.which("hipcc")) is not None:
        commands.append((hipcc,))
    spec = find_spec("ziglang")
    if spec is not None and spec.origin is not None:
        zig = Path(spec.origin).with_name("zig")
        commands.append((str(zig if zig.is_file() else zig.with_suffix(".exe")), "clang"))
    if (system := shutil.which("clang")) is not None and "amdgcn" in _asked((system, "--print-targets")):
        commands.append((system,))
    for command in commands:
        if found := re.search(_VERSION, _asked((*command, "--version"))):
            return Clang(command, f"clang {found[1]}")
    raise DseError(f"clang: found none for AMD GPUs, expected {install('amd')}, or ROCm's hipcc")


@cache
def knows(target: int) -> bool:
    """Tell whether it compiles for a target: 0x90a for gfx90a."""
    ran = run(["-x", "c", "--target=amdgcn-amd-amdhsa", f"-mcpu=gfx{target:x}", "-nogpulib", "-S"], "")
    return bool(ran.code)


@dataclass(frozen=True)
class Ran:
    """What a run of the compiler gave."""

    code: str  # "" where it failed
    log: str


def run(arguments: Sequence[str], text: str) -> Ran:
    """Compile a text from the standard input to the standard output, within SECONDS and BYTES."""
    with tempfile.TemporaryDirectory(prefix="dse-") as folder:
        process = subprocess.Popen(
            [*clang().command, *arguments, "-o", "-", "-"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        _limit(process.pid)
        try:
            code, log = process.communicate(text, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return Ran("", f"error: found no code after {SECONDS} s, expected it sooner")
    if process.returncode < 0:
        return Ran("", f"{log}\nerror: the compiler ended by signal {-process.returncode}")
    return Ran("" if process.returncode else code, log)


def _limit(process: int) -> None:
    """Limit the memory of a process, where the system can do that from outside."""
    try:
        import resource

        resource.prlimit(process, resource.RLIMIT_AS, (BYTES, BYTES))
    except (ImportError, AttributeError, OSError):  # not Linux, or it has ended
        return


def _asked(command: Sequence[str]) -> str:
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ended.stdout + ended.stderr
