"""Kernels compiled in advance: a file of code and launch data, for machines without their compiler.

A zip file. `code/DIGEST` is machine code, each stored once. `built.json` lists it with its launch data, and
for each kernel and case of problem sizes the configurations, each with the number of its code or of the
reason why it has none.
"""

import hashlib
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import ValidationError, convert, to_builtins

from dse.core.files import parse_json, read_text, replacing
from dse.data.safe_readers import Members
from dse.errors import DseError
from dse.kernels.description import Description
from dse.source.cache import key
from dse.source.contract import Failure, Launched
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.sass import elf

Number = int | float

FORMAT = 1
_LIST = "built.json"
MOST_BYTES = 1 << 30  # of a file's contents
_KEPT = ("kernel", "digest", "compiler", "sizes", "names", "parameters")  # fields of a space, unchanged


@dataclass(frozen=True)
class BuiltCode:
    """Machine code of one kernel, and its launch data."""

    cubin: bytes
    launched: Launched | None  # None: as in the description
    spill_bytes: int | None

    @property
    def name(self) -> str:
        """The name of its file in the zip file."""
        return f"code/{hashlib.sha256(self.cubin).hexdigest()}"


@dataclass(frozen=True)
class BuiltSpace:
    """Configurations of one kernel for one case of problem sizes, and the code of each."""

    kernel: str
    digest: str  # of the kernel, see `digest_of`
    compiler: str
    sizes: Mapping[str, Number]
    names: tuple[str, ...]  # of the parameters
    parameters: tuple[tuple[Number, ...], ...]  # of each configuration
    outcomes: tuple[BuiltCode | Failure, ...]

    def compiled(self, index: int) -> Compiled | Failure:
        """Return the compiler's outcome for a configuration. DseError if its code cannot be read."""
        code = self.outcomes[index]
        if isinstance(code, Failure):
            return code
        return Compiled(
            _binary(code.cubin, self.kernel),
            code.cubin,
            None,
            "",
            self.compiler,
            code.spill_bytes,
            launched=code.launched,
        )


@lru_cache(maxsize=4096)  # cases of problem sizes share them
def _binary(cubin: bytes, kernel: str) -> elf.Binary:
    kernels = elf.read(cubin, kernel)
    if len(kernels) != 1:
        raise DseError(f"{kernel}: code: found {len(kernels)} kernels, expected one")
    return next(iter(kernels.values()))


@dataclass(frozen=True)
class BuiltFile:
    """Contents of a file."""

    path: Path
    arch: int
    spaces: tuple[BuiltSpace, ...]

    def of(self, kernels: Sequence[str], sizes: Mapping[str, Number]) -> list[BuiltSpace]:
        """Find the spaces of `kernels` (default: all) with these problem sizes.

        **Raises:** DseError if a kernel, or a size of it, is missing.
        """
        spaces = []
        for kernel in kernels or dict.fromkeys(space.kernel for space in self.spaces):
            cases = [space for space in self.spaces if space.kernel == kernel]
            if not cases:
                known = ", ".join(dict.fromkeys(space.kernel for space in self.spaces))
                raise DseError(f"{self.path}: kernel: found no {kernel}, expected one of {known}")
            stated = {name: size for name, size in sizes.items() if name in cases[0].sizes}
            fitting = [space for space in cases if all(space.sizes[name] == stated[name] for name in stated)]
            if not fitting:
                missing = ", ".join(f"{name}={size}" for name, size in stated.items())
                known = "; ".join(
                    ", ".join(f"{name}={case.sizes[name]}" for name in stated) for case in cases
                )
                raise DseError(f"{self.path}: {kernel}: found no {missing}, expected one of {known}")
            spaces += fitting
        return spaces


def digest_of(description: Description) -> str:
    """Return a digest of a kernel's source and launch, to detect changes.

    Needs no compiler. **Raises:** DseError if there is no source, or it cannot be read.
    """
    if description.source is None or description.build is None:
        raise DseError(f"{description.path}: source: found none, expected a table with file, grid, arguments")
    text = read_text(description.source)
    return key(text, repr(description.build), repr(description.let))


def code_of(outcome: Compiled | Failure, shared_bytes: int) -> BuiltCode | Failure:
    """Return the stored part of an outcome; a failure if it needs more shared memory, or clusters."""
    if isinstance(outcome, Failure):
        return outcome
    if outcome.launched is not None and outcome.launched.cluster > 1:
        return Failure("not executed", "found clusters of blocks, expected none")
    used = outcome.binary.shared_bytes + (outcome.launched.shared_bytes if outcome.launched else 0)
    if used > shared_bytes:
        return Failure("too much shared memory", f"found {used:,} B, expected {shared_bytes:,} or less")
    return BuiltCode(outcome.cubin, outcome.launched, outcome.spill_bytes)


def together(earlier: Sequence[BuiltSpace], new: Sequence[BuiltSpace]) -> list[BuiltSpace]:
    """Replace earlier spaces of the same case by new ones, and drop those of changed kernels."""
    digests = {space.kernel: space.digest for space in new}
    spaces = {
        _case(space): space for space in earlier if digests.get(space.kernel, space.digest) == space.digest
    }
    return list((spaces | {_case(space): space for space in new}).values())


def _case(space: BuiltSpace) -> tuple[str, str]:
    return space.kernel, json.dumps(dict(space.sizes), sort_keys=True)


def write(path: Path, arch: int, spaces: Sequence[BuiltSpace]) -> None:
    """Write a file, whole or not at all. **Raises:** DseError if it cannot be written."""
    codes: dict[BuiltCode, int] = {}
    reasons: dict[Failure, int] = {}
    listed = []
    for space in spaces:
        numbers = [
            -1 - reasons.setdefault(result, len(reasons))
            if isinstance(result, Failure)
            else codes.setdefault(result, len(codes))
            for result in space.outcomes
        ]
        listed.append({**{name: getattr(space, name) for name in _KEPT}, "made": numbers})
    listing = {
        "format": FORMAT,
        "arch": arch,
        "codes": [
            {"file": code.name, "launched": to_builtins(code.launched), "spill_bytes": code.spill_bytes}
            for code in codes
        ],
        "reasons": to_builtins(list(reasons)),
        "spaces": listed,
    }
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_LZMA) as file:
        file.writestr(_LIST, json.dumps(listing))
        for name, cubin in {code.name: code.cubin for code in codes}.items():
            file.writestr(name, cubin)


def read(path: Path) -> BuiltFile:
    """Read a file of `write`. **Raises:** DseError for any other file."""
    if not path.is_file():
        raise DseError(f"{path}: found no file, expected what `dse measure build` wrote")
    within = Members(path, MOST_BYTES)
    listing = parse_json(within.read(_LIST).decode("utf-8", errors="replace"), f"{path}: {_LIST}")
    try:
        if listing["format"] != FORMAT:
            raise DseError(f"{path}: format: found {listing['format']}, expected {FORMAT}; build it again")
        cubins = {
            name: within.read(name) for name in dict.fromkeys(entry["file"] for entry in listing["codes"])
        }
        codes = [
            BuiltCode(
                cubins[entry["file"]], convert(entry["launched"], Launched | None), entry["spill_bytes"]
            )
            for entry in listing["codes"]
        ]
        reasons = convert(listing["reasons"], list[Failure])
        spaces = tuple(_space(entry, codes, reasons) for entry in listing["spaces"])
        changed = next((name for code in codes if (name := code.name) not in cubins), None)
        if changed:
            raise ValueError("code that was changed")
        return BuiltFile(path, int(listing["arch"]), spaces)
    except (
        KeyError,
        IndexError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        ValidationError,
    ) as error:
        raise DseError(f"{path}: found {error!s:.80}, expected what `dse measure build` wrote") from None


def _space(listing: Mapping[str, Any], codes: Sequence[BuiltCode], reasons: Sequence[Failure]) -> BuiltSpace:
    kernel, digest, compiler, sizes, names, parameters = (listing[name] for name in _KEPT)
    outcomes = tuple(codes[number] if number >= 0 else reasons[-1 - number] for number in listing["made"])
    rows = tuple(map(tuple, parameters))
    if len(rows) != len(outcomes) or any(len(row) != len(names) for row in rows):
        raise ValueError(f"other numbers of configurations of {kernel}")
    return BuiltSpace(kernel, digest, compiler, dict(sizes), tuple(names), rows, outcomes)
