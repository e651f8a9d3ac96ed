"""The options that a kernel's file may state for AMD GPUs: those of clang, and of NVRTC, translated.

Options of NVIDIA's compiler alone that do not change the code's meaning are left out.
"""

import re
from collections.abc import Sequence

from dse.errors import DseError
from dse.source.nvidia.compile import options as of_cuda
from dse.source.nvidia.compile.includes import single

ALLOWED = (
    *("-ffast-math", "-fno-fast-math", "-munsafe-fp-atomics", "-mcumode", "-mno-cumode", "-mwavefrontsize64"),
    *("-O1", "-O2", "-O3", "-Os", "-Ofast", "-w", "--gpu-max-threads-per-block", "-ffp-contract", "-std"),
)
_DEFINED = re.compile(r"-[DU].+|-?-(?:define-macro|undefine-macro)=.+")
_LONG = {"define-macro": "-D", "undefine-macro": "-U"}
_FAST = ("-use_fast_math", "--use_fast_math")


def check(options: Sequence[str], where: str) -> None:
    """Reject options allowed for neither compiler. **Raises:** DseError that begins with `where`."""
    for option in options:
        single(option, where)
        if option.partition("=")[0] not in ALLOWED and not _DEFINED.fullmatch(option):
            of_cuda.check([option], where)


def for_clang(options: Sequence[str]) -> list[str]:
    """Return checked options in clang's form."""
    translated = []
    for option in options:
        name, _, value = option.partition("=")
        if name in _FAST and value in ("", "true"):
            translated.append("-ffast-math")
        elif name.lstrip("-") in _LONG and value:
            translated.append(_LONG[name.lstrip("-")] + value)
        elif name.lstrip("-") == "std":
            translated.append(f"-std={value}")
        elif name in ALLOWED or _DEFINED.fullmatch(option):
            translated.append(option)
    return translated


def refused(option: str) -> DseError:
    """Return the error for an option that this clang does not know."""
    return DseError(f"compiler options: found {option!r}, expected one of {', '.join(ALLOWED)}")
