"""Restrict the folders a process may read, with Linux's Landlock (5.13 and later).

Also a program: `python landlock.py FOLDER... -- COMMAND...` restricts itself and executes the command.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

# From <linux/landlock.h> and <linux/prctl.h>; the system call numbers hold on all architectures but alpha.
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
    """Restrict this process and its children to reading files in these folders.

    Threads that already run stay unrestricted. Returns False without Landlock: nothing changes.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    handled = struct.pack("Q", _READ_FILE | _READ_DIR)
    rules = libc.syscall(_CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), 0)
    if rules < 0:
        return False
    for folder in folders:
        with suppress(OSError):  # no such folder
            beneath = os.open(folder, os.O_PATH | os.O_CLOEXEC)
            rights = _READ_FILE | (_READ_DIR if os.path.isdir(folder) else 0)
            libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, beneath), 0)
            os.close(beneath)
    libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    confined = libc.syscall(_RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    return confined


def confined(command: Iterable[str], folders: Iterable[str | Path]) -> list[str]:
    """Wrap a command so that it can read files in these folders only."""
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-I", "-S", __file__, *map(str, folders), "--", *command]


if __name__ == "__main__":
    at = sys.argv.index("--")
    program = sys.argv[at + 1 :]
    confine([*SYSTEM, *sys.argv[1:at]])
    os.execvp(program[0], program)
