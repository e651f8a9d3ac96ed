"""Kernels and GPUs by their names, with the parameters and sizes that `--set` changes."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dse.errors import MOST_NAMES, DseError, one_of

if TYPE_CHECKING:
    from dse.core.space import Space
    from dse.hardware.gpus import GpuFile
    from dse.kernels.counts import Counts, Number
    from dse.kernels.description import Description
    from dse.source.readers.given import Given

ASSUMED: dict[str, None] = {}  # by files of kernels that were read: said after a command that worked


def description(
    name: str,
    changed: Mapping[str, "Number"],
    space: Path | None = None,
    given: "Given | None" = None,
) -> tuple["Description", dict[str, "Number"]]:
    """Return a kernel's description with `changed` parameters fixed, and its problem sizes.

    `space` is a T1 file that takes the place of the kernel's own tuning space, or a table of the
    configurations of it that are meant; `given` is what is said of
    its source.
    DseError for a name in `changed` that is neither parameter nor size.
    """
    loaded = _load(name, given)
    if space is not None:
        from dse.data.measured import listed
        from dse.source.readers import t1, t1_kernel

        if listed.is_table(space):
            loaded = listed.with_configurations(loaded, space)
        else:
            loaded = t1_kernel.with_space(loaded, t1.load(space))
    sizes = {key: value for key, value in changed.items() if key in dict(loaded.problem)}
    fixed = {key: value for key, value in changed.items() if key not in sizes}
    unknown = [key for key in fixed if key not in loaded.space.names]
    if unknown:
        allowed = [*loaded.space.names, *dict(loaded.problem)]
        raise DseError(f"--set: {loaded.name}: found {unknown[0]!r}, {one_of(unknown[0], allowed)}")
    if fixed:
        loaded = replace(loaded, space=with_fixed(loaded, {key: (value,) for key, value in fixed.items()}))
    ASSUMED.update(dict.fromkeys(loaded.assumptions))
    return loaded, loaded.sizes(**sizes)


def _load(name: str, given: "Given | None" = None) -> "Description":
    """Read a kernel. **Raises:** DseError, also for a GPU in its place."""
    from dse.source import readers

    try:
        return readers.load(name, given)
    except DseError as unknown:
        raise (_exchanged(name) or unknown) from None


def _exchanged(name: str) -> DseError | None:
    """Return the mistake of a GPU in the place of a kernel, if it is one."""
    from dse.hardware import gpus

    check_single("KERNEL", [name])
    if Path(name).exists():
        return None
    with suppress(DseError):
        gpus.find(name)
        return DseError(f"KERNEL: found the GPU {name}, expected a kernel; are KERNEL and --gpu exchanged?")
    return None


def with_fixed(loaded: "Description", values: Mapping[str, Sequence["Number"]]) -> "Space":
    """Return a kernel's space with other values of some parameters; those outside it are pointed out."""
    for key, some in values.items():
        own = loaded.space.values[key]
        if outside := [value for value in some if value not in own]:
            listed = ", ".join(map(str, own[:MOST_NAMES])) + (", ..." if len(own) > MOST_NAMES else "")
            ASSUMED[f"{key} may be {outside[0]}, which is outside its space: {listed}"] = None
    return loaded.space.with_values(values, "--set")


def kernel(
    name: str,
    changed: Mapping[str, "Number"],
    space: Path | None = None,
    given: "Given | None" = None,
    source: bool = False,
    compiled: int | None = None,
) -> tuple["Counts", dict[str, "Number"]]:
    """Return what counts a kernel's configurations, by its description or its source; see `description`.

    **Raises:** DseError for --compile where nothing is compiled.
    """
    from dse.source import readers

    loaded, sizes = description(name, changed, space, given)
    if compiled is not None and not source and loaded.described:
        raise DseError(f"--compile: found {compiled} without --source, expected both")
    return readers.counts_of(loaded, source, compiled), sizes


def in_words(name: str, parameters: Mapping[str, "Number"]) -> str:
    """Say the values of those of a kernel's parameters that have a choice."""
    values = description(name, {})[0].space.values
    return ", ".join(f"{key}={value}" for key, value in parameters.items() if len(values[key]) > 1)


def several(
    names: Sequence[str], changed: Mapping[str, "Number"]
) -> list[tuple["Counts", dict[str, "Number"]]]:
    """Return what counts the configurations of several kernels; see `several_descriptions`."""
    from dse.source import readers

    return [(readers.counts_of(loaded), sizes) for loaded, sizes in several_descriptions(names, changed)]


def several_descriptions(
    names: Sequence[str], changed: Mapping[str, "Number"]
) -> list[tuple["Description", dict[str, "Number"]]]:
    """Read several kernels, each with those of `changed` that it knows. DseError for one that none knows."""
    kernels, unused, every = [], set(changed), dict[str, None]()
    for name in dict.fromkeys(names):
        loaded = _load(name)
        known = {*loaded.space.names, *dict(loaded.problem)}
        unused -= known
        every |= dict.fromkeys([*loaded.space.names, *dict(loaded.problem)])
        kernels.append(description(name, {key: value for key, value in changed.items() if key in known}))
    if unused:
        what = f"a parameter or size of {', '.join(names)}:"
        raise DseError(f"--set: found {min(unused)!r}, {one_of(min(unused), every, what)}")
    return kernels


def kernels_of_work(names: Sequence[str]) -> list[str]:
    """Return the names, with that of work which several kernels do replaced by theirs."""
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
    """Refuse a list where an option, or a KERNEL, is one name each time. **Raises:** DseError."""
    before = "" if option == "KERNEL" else f"{option} "
    for name in names:
        if re.fullmatch(r"[\w-]+(,\s*[\w-]+)+", name) and not Path(name).exists():
            separate = " ".join(before + part.strip() for part in name.split(","))
            raise DseError(f"{option}: found the list {name!r}, expected one name each time: {separate}")


def gpus(names: Sequence[str]) -> list["GpuFile"]:
    """Read the GPUs asked for, each once."""
    from dse.hardware import gpus

    check_single("--gpu", names)
    files = {file.name: file for file in map(gpus.load, names)}
    return list(files.values())
