"""Kernels and GPUs by name, with the parameters and sizes of `--set`."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dse.errors import MOST_NAMES, DseError, one_of

if TYPE_CHECKING:
    from dse.hardware.gpus import GpuFile
    from dse.kernels.counts import Counts, Number
    from dse.kernels.description import Description
    from dse.source.readers.given import Given

ASSUMED: dict[str, None] = {}  # assumptions about kernels, printed after a successful command


def description(
    name: str,
    changed: Mapping[str, Any],
    space: Path | None = None,
    given: "Given | None" = None,
) -> tuple["Description", dict[str, Any]]:
    """Return a kernel's description with `changed` parameters fixed, and its problem sizes.

    `changed` may also have several values for a name.

    `space` is a T1 file that replaces the kernel's tuning space, or a table of configurations; `given` is the
    launch of a source file.

    **Raises:** DseError for a name in `changed` that is neither parameter nor size.
    """
    loaded = _load(name, given)
    if space is not None:
        from dse.data.measured import listed
        from dse.source.readers import t1, t1_kernel

        if listed.is_table(space):
            loaded = listed.with_configurations(loaded, space)
        else:
            loaded = t1_kernel.with_space(loaded, t1.load(space))
    fixed, sizes = loaded.with_changed(changed, "--set")
    for key, own in loaded.space.values.items():
        if outside := [value for value in fixed.space.values[key] if value not in own]:
            listed = ", ".join(map(str, own[:MOST_NAMES])) + (", ..." if len(own) > MOST_NAMES else "")
            ASSUMED[f"{key} may be {outside[0]}, which is outside its space: {listed}"] = None
    ASSUMED.update(dict.fromkeys(loaded.assumptions))
    return fixed, sizes


def _load(name: str, given: "Given | None" = None) -> "Description":
    """Read a kernel. **Raises:** DseError, with a hint if it is the name of a GPU."""
    from dse.source import readers

    try:
        return readers.load(name, given)
    except DseError as unknown:
        raise (_exchanged(name) or unknown) from None


def _exchanged(name: str) -> DseError | None:
    """Return the error for a GPU given as the kernel, if it is one."""
    from dse.hardware import gpus

    check_single("KERNEL", [name])
    if Path(name).exists():
        return None
    with suppress(DseError):
        gpus.find(name)
        return DseError(f"KERNEL: found the GPU {name}, expected a kernel; are KERNEL and --gpu exchanged?")
    return None


def kernel(
    name: str,
    changed: Mapping[str, "Number"],
    space: Path | None = None,
    given: "Given | None" = None,
    source: bool = False,
    compiled: int | None = None,
) -> tuple["Counts", dict[str, "Number"]]:
    """Return a kernel counted by its description or source, and its sizes; see `description`.

    **Raises:** DseError for --compile if nothing is compiled.
    """
    from dse.source import readers

    loaded, sizes = description(name, changed, space, given)
    if compiled is not None and not source and loaded.described:
        raise DseError(f"--compile: found {compiled} without --source, expected both")
    return readers.counts_of(loaded, source, compiled), sizes


def in_words(name: str, parameters: Mapping[str, "Number"]) -> str:
    """Format the values of a kernel's parameters, except those with a single value."""
    values = description(name, {})[0].space.values
    return ", ".join(f"{key}={value}" for key, value in parameters.items() if len(values[key]) > 1)


def several(names: Sequence[str], changed: Mapping[str, Any]) -> list[tuple["Counts", dict[str, Any]]]:
    """Return several kernels and their sizes; see `several_descriptions`."""
    from dse.source import readers

    return [(readers.counts_of(loaded), sizes) for loaded, sizes in several_descriptions(names, changed)]


def several_descriptions(
    names: Sequence[str], changed: Mapping[str, Any]
) -> list[tuple["Description", dict[str, Any]]]:
    """Read several kernels, each with its part of `changed`. **Raises:** DseError for an unknown name."""
    kernels, unused, known = [], set(changed), dict[str, None]()
    for name in dict.fromkeys(names):
        loaded = _load(name)
        own = [*loaded.space.names, *dict(loaded.problem)]
        unused -= set(own)
        known |= dict.fromkeys(own)
        kernels.append(description(name, {key: value for key, value in changed.items() if key in own}))
    if unused:
        kind = f"a parameter or size of {', '.join(names)}:"
        raise DseError(f"--set: found {min(unused)!r}, {one_of(min(unused), known, kind)}")
    return kernels


def kernels_of_work(names: Sequence[str]) -> list[str]:
    """Replace names of work by the names of its kernels."""
    from dse import kernels

    replaced: list[str] = []
    for name in names:
        try:
            kernels.find(name)
            replaced.append(name)
        except DseError as unknown:
            try:
                replaced += kernels.variants(name)
            except DseError:
                raise unknown from None
    return replaced


def check_single(option: str, names: Sequence[str]) -> None:
    """Reject a comma-separated list for an option or KERNEL that takes one name. **Raises:** DseError."""
    before = "" if option == "KERNEL" else f"{option} "
    for name in names:
        if re.fullmatch(r"[\w-]+(,\s*[\w-]+)+", name) and not Path(name).exists():
            separate = " ".join(before + part.strip() for part in name.split(","))
            raise DseError(f"{option}: found the list {name!r}, expected one name each time: {separate}")


def gpus(names: Sequence[str]) -> list["GpuFile"]:
    """Read GPUs, without duplicates."""
    from dse.hardware import gpus

    check_single("--gpu", names)
    files = {file.name: file for file in map(gpus.load, names)}
    return list(files.values())
