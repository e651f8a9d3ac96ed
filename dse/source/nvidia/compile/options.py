"""The compiler options that a kernel's file may state: only those that change its code.

NVRTC also has options that write files (precompiled headers, timings, traces) or read any folder.
"""

import re
from collections.abc import Sequence

from dse.errors import DseError
from dse.source.nvidia.compile.includes import single

ALLOWED = (
    *("define-macro", "D", "undefine-macro", "U", "std", "maxrregcount"),
    *("use_fast_math", "ftz", "prec-sqrt", "prec-div", "fmad", "extra-device-vectorization", "restrict"),
    *("device-int128", "device-float128", "default-device", "device-as-default-execution-space"),
    *("ftemplate-backtrace-limit", "disable-warnings", "w", "diag-suppress", "dopt", "lineinfo", "G"),
)
_JOINED = ("D", "U")  # their value follows without a space
_FOLDER = re.compile(r"(?:-I|--?include-path=)(.+)")
_DEFINED = re.compile(r"(?:-D|--?define-macro=)([^=]+)(?:=(.*))?")
_UNDEFINED = re.compile(r"(?:-U|--?undefine-macro=)(.+)")


def split(options: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate options from include folders."""
    folders = [folder[1].strip() for option in options if (folder := _FOLDER.fullmatch(option))]
    return [option for option in options if not _FOLDER.fullmatch(option)], folders


def directives(options: Sequence[str]) -> tuple[list[str], str]:
    """Separate options from macros, which are returned as lines of source.

    Lines can come after a prelude, whose own names macros such as N and T would change.
    """
    kept, lines = [], []
    for option in options:
        if macro := _DEFINED.fullmatch(option):
            lines.append(f"#define {macro[1]} {'1' if macro[2] is None else macro[2]}\n")
        elif macro := _UNDEFINED.fullmatch(option):
            lines.append(f"#undef {macro[1]}\n")
        else:
            kept.append(option)
    return kept, "".join(lines)


def check(options: Sequence[str], where: str) -> None:
    """Reject all other options. **Raises:** DseError that begins with `where`."""
    for option in options:
        single(option, where)
        name = option.lstrip("-").partition("=")[0]
        if not option.startswith("-") or (name not in ALLOWED and name[:1] not in _JOINED):
            allowed = ", ".join(
                f"-{allowed_option}" if len(allowed_option) == 1 else f"--{allowed_option}"
                for allowed_option in ALLOWED
            )
            raise DseError(f"{where}: found {option!r}, expected one of {allowed}")
