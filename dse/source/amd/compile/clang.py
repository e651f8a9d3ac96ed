"""A clang that compiles for AMD GPUs: that of $DSE_CLANG, ROCm, the wheel `ziglang` or the system.

A kernel's instructions and registers depend on the compiler's version: to compare with times measured with
some ROCm, name its clang.

It runs in a process of its own, within the limits of `dse.core.processes`. It reads the source from its
standard input, and headers only from given folders, not from the system's.
"""

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from dse.core import processes
from dse.core.landlock import confined
from dse.core.optional import install
from dse.errors import DseError

NAMED = "DSE_CLANG"  # a command: "/opt/rocm/llvm/bin/clang", or "/somewhere/ziglang/zig clang"
_VERSION = r"clang version (\d+\.\d+\.\d+)"


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
    if named := os.environ.get(NAMED):
        try:
            command = tuple(shlex.split(named))
        except ValueError:  # an unclosed quotation
            command = (named,)
        if not (match := re.search(_VERSION, _asked((*command, "--version")))):
            raise DseError(f"{NAMED}: found {named!r}, expected the path of a clang")
        return Clang(command, f"clang {match[1]}")
    if (hipcc := shutil.which("hipcc")) is not None:
        commands.append((hipcc,))
    spec = find_spec("ziglang")
    if spec is not None and spec.origin is not None:
        zig = Path(spec.origin).with_name("zig")
        commands.append((str(zig if zig.is_file() else zig.with_suffix(".exe")), "clang"))
    if (system := shutil.which("clang")) is not None and "amdgcn" in _asked((system, "--print-targets")):
        commands.append((system,))
    for command in commands:
        if match := re.search(_VERSION, _asked((*command, "--version"))):
            return Clang(command, f"clang {match[1]}")
    raise DseError(f"clang: found none for AMD GPUs, expected {install('amd')}, or ROCm's hipcc")


@cache
def knows(target: int) -> bool:
    """Return whether it compiles for a target: 0x90a for gfx90a."""
    ran = run(["-x", "c", "--target=amdgcn-amd-amdhsa", f"-mcpu=gfx{target:x}", "-nogpulib", "-S"], "")
    return bool(ran.code)


@dataclass(frozen=True)
class Ran:
    """The result of a run of the compiler."""

    code: str  # "" if it failed
    log: str
    stopped: bool = False  # by a limit or a signal: it may succeed next time


def run(
    arguments: Sequence[str],
    text: str,
    folders: Sequence[str | Path] = (),
    headers: Mapping[str, str] | None = None,
) -> Ran:
    """Compile a text from the standard input to the standard output, within the limits of compilers.

    Besides its own files the compiler can read only those in `folders`. It starts in a folder with `headers`.
    """
    command = clang().command
    own = Path(shutil.which(command[0]) or command[0]).resolve().parent
    made = {name: content.encode() for name, content in (headers or {}).items()}
    with processes.scratch(made) as folder:
        try:
            whole = confined([*command, *arguments, "-o", "-", "-"], [own, own.parent, folder, *folders])
            ended = processes.run(whole, folder=folder, text=text)
        except processes.ProcessKilled as how:
            return Ran("", f"the compiler {how}", stopped=True)
    limits, how = processes.compiler_limits(), ""
    if "File too large" in ended.errors:  # it reports the signal of the limit as its own error
        how = processes.wrote_too_much(limits)
    elif ended.code and "frontend command failed" in ended.errors:  # its subprocess has crashed
        how = f"ended by a crash ({processes.memory_allowed(limits)})"
    if how:
        return Ran("", f"the compiler {how}", stopped=True)
    return Ran("" if ended.code else ended.output, ended.errors)


def _asked(command: Sequence[str]) -> str:
    try:
        ended = processes.run(command)
    except (OSError, processes.ProcessKilled):
        return ""
    return ended.output + ended.errors
