"""Landlock, by which Linux (5.13 and later) keeps a process to the folders that it may read.

Also a program: `python landlock.py FOLDER... -- COMMAND...` confines itself and becomes the command.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

# Of <linux/landlock.h> and <linux/prctl.h>; system calls have these numbers on every architecture but alpha.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_PATH_BENEATH = 1
_NO_NEW_PRIVS = 38

SYSTEM = (
    "/usr",
    "/lib",
    "/lib64",
    "/lib32",
    "/bin",
    "/opt/rocm",
    "/dev/null",
    "/dev/urandom",
    "/etc/ld.so.cache",
)


def confine(folders: Iterable[str | Path]) -> bool:
    """Let this process, and what it starts, read files in these folders and in no others, from here on.

    Threads that run already stay free. False where the system has no Landlock: then nothing changes.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    handled = struct.pack("Q", _READ_FILE | _READ_DIR)
    rules = libc.syscall(_CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), 0)
    if rules < 0:
        return False
    for folder in folders:
        with suppress(OSError):  # there is none
            beneath = os.open(folder, os.O_PATH | os.O_CLOEXEC)
            rights = _READ_FILE | (_READ_DIR if os.path.isdir(folder) else 0)
            libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, beneath), 0)
            os.close(beneath)
    libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    confined = libc.syscall(_RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    return confined


def confined(command: Iterable[str], folders: Iterable[str | Path]) -> list[str]:
    """Return a command that runs another one, which can read files in these folders only."""
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-I", "-S", __file__, *map(str, folders), "--", *command]


if __name__ == "__main__":
    at = sys.argv.index("--")
    program = sys.argv[at + 1 :]
    confine([*SYSTEM, *sys.argv[1:at]])
    os.execvp(program[0], program)
