"""Profile configurations of a kernel for an NVIDIA GPU: compile, disassemble and execute them."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from dse.core.processes import OverLimit, memory_limited
from dse.errors import DseError
from dse.hardware.coalescing import SECTOR
from dse.source.caches.cache_model import Traffic, latency_of_slowest
from dse.source.contract import Failure
from dse.source.launches import (
    Argument,
    Configuration,
    NotStated,
    check_shared,
    is_pointer,
    name_of,
    no_contents,
    too_small,
    unstated,
    unstated_numbers,
    with_names,
)
from dse.source.machine.blocks import Sample
from dse.source.machine.launch import OUTSIDE, VARIABLE
from dse.source.nvidia.arguments import as_launched, launch_of
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.declared import Declared, parameters_of, variables_of, with_members, zeros_of
from dse.source.nvidia.compile.triton import numpy_type
from dse.source.nvidia.execute.moved_blocks import addresses_of
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.profile.characterise import prepare, run_sample, summary, touched_bytes
from dse.source.nvidia.profile.walk import timing
from dse.source.nvidia.sass.disassemble import disassemble_each
from dse.source.nvidia.sass.elf import reserved_shared_bytes
from dse.source.nvidia.sass.listing import Listing
from dse.source.profile.characterise import Characterisation
from dse.source.profiles import Job, KernelProfile, asked_of, compiled, executed_each, moved, with_assumed
from dse.types import Gpu, Resources


def profiled(job: Job) -> dict[str, KernelProfile | Failure]:
    """Compile, disassemble together and execute some configurations."""
    made_by_key = compiled(job, Compiled)
    unread = {
        name: made.binary
        for name, made in made_by_key.items()
        if isinstance(made, Compiled) and made.listing is None and not refused(made, job.wanted[name])
    }
    listings = dict(zip(unread, disassemble_each(list(unread.values())), strict=True))

    def execute(name: str, made: Compiled) -> KernelProfile:
        configuration = job.wanted[name]
        if why := refused(made, configuration):
            raise DseError(why)
        listing = made.listing or listings[name]
        if isinstance(listing, OverLimit):
            raise listing
        return completed(made, listing, configuration, job.source, job.gpu)[0]

    return executed_each(job, made_by_key, execute)


def completed(
    made: Compiled, listing: Listing, configuration: Configuration, source: Any, gpu: Gpu | None
) -> tuple[KernelProfile, Configuration]:
    """Profile a configuration; return the launch too, completed by the code and by what is assumed.

    **Raises:** DseError if it cannot be executed, or depends on unstated arguments.
    """
    launched = replace(as_launched(made, configuration), assumed=zeros_of(source))

    def counted(launched: Configuration) -> tuple[KernelProfile, dict[int | str, tuple[str, str]], bool]:
        profile = executed(made, listing, launched, gpu)
        lacks, zeros = unstated_arrays(profile.counts, made, source)
        if lacks := unstated_number(profile.counts, made, source, configuration.arguments) or lacks:
            raise NotStated(lacks)
        return profile, zeros, any(what.matters or what.never for what in profile.counts.unknown)

    try:
        return with_assumed(launched, counted)
    except DseError as error:
        raise type(error)(_with_names(str(error), made, source)) from None


def refused(made: Compiled, configuration: Configuration) -> str:
    """Return why code cannot be executed at all; "" if it can."""
    kernel = made.binary.kernel
    if made.adds_shared and configuration.shared_bytes is None:
        stated = "shared memory whose size only the launch says"
        return f"{kernel}: shared memory: found {stated}, expected its size (given.shared_bytes)"
    if made.binary.relocated:
        return f"{kernel}: code: found addresses left open for loading, expected none"
    return ""


def unstated_number(
    counts: Characterisation, made: Compiled, source: Any, arguments: Sequence[Argument]
) -> str:
    """Return the message on unstated numbers for which zeros count too little; "" if none."""
    passed = made.launched.passed if made.launched is not None else None
    places = dict[int | None, None]()
    for what in (what for decision in counts.unknown for what in decision.depends_on):
        if what == "arguments":  # one of them, by a computed index
            places |= dict.fromkeys(unstated_numbers(arguments))
        if number := _NUMBER.match(what):
            index = int(number[1])
            places[passed[index].argument if passed else index] = None
    if places:
        return unstated(made.binary.kernel, names_of(source), places)
    return ""


def unstated_arrays(
    counts: Characterisation, made: Compiled, source: Any
) -> tuple[str, dict[int | str, tuple[str, str]]]:
    """Return (the message on an array whose contents the counts need, "" if none; arrays taken as zeros).

    Of those, by the place of the argument, or the name of a variable, the name and type.

    Zeros that end work early, or send all accesses to one address, would count too little. Arrays of floats
    or pointers count as `launches.assumed` says.
    """
    passed = made.launched.passed if made.launched is not None else None
    declared = () if passed else with_members(parameters_of(source) or ())
    variables = variables_of(source)
    zeros: dict[int | str, tuple[str, str]] = {}
    for decision in counts.unknown:
        for array in filter(None, map(_OUTSIDE.match, decision.depends_on if decision.matters else ())):
            index = passed[int(array[1])].argument if passed else int(array[1])
            return too_small(made.binary.kernel, name_of(names_of(source), index or 0)), {}
        for array in filter(None, map(_CONTENTS.match, decision.depends_on)):
            at = array[2] or int(array[1])
            index = passed[at].argument if passed and isinstance(at, int) else at
            if isinstance(at, str):
                variable = variables.get(at, Declared(at, False, whole=True))
                whole, kind = variable.whole or decision.what == "address", variable.kind
            elif passed:
                whole = not passed[at].fractions or decision.what == "address"
                types = getattr(source, "types", ())  # a folder of Triton's cache has none
                kind = numpy_type(types[index]) if types and index is not None else "int32"
            else:  # addresses depend on whole numbers
                whole = decision.what == "address" or any(
                    parameter.whole for parameter in declared[at : at + 1]
                )
                kind = next((parameter.kind for parameter in declared[at : at + 1]), "") or "int32"
            name = VARIABLE + index if isinstance(index, str) else "Triton's own memory"
            name = name_of(names_of(source), index) if isinstance(index, int) else name
            if decision.matters and whole and not is_pointer(kind):
                does = "ends or skips work" if decision.what == "branch" else "says where others are read"
                return no_contents(made.binary.kernel, name, does, kind), {}
            if decision.matters or decision.what == "guard":
                zeros[at] = name, kind
    return "", zeros


def _with_names(message: str, made: Compiled, source: Any) -> str:
    """Replace numbers of arguments in a message by their names."""
    passed = made.launched.passed if made.launched is not None else None

    def name(number: int) -> str | None:
        place = passed[number].argument if passed else number
        return None if place is None else name_of(names_of(source), place)

    return with_names(message, name)


def names_of(source: Any) -> Sequence[str]:
    """Return the names of a kernel's arguments that its source has."""
    return source.names or [parameter.name for parameter in with_members(parameters_of(source) or ())]


_NUMBER = re.compile(r"argument (\d+)$")
_OUTSIDE = re.compile(rf"{OUTSIDE} (\d+)")
_CONTENTS = re.compile(rf"(?:contents of argument (\d+)|{VARIABLE}(\w+))")


def resources(made: Compiled, configuration: Configuration) -> Resources:
    """Return the resources of a launch."""
    return asked_of(configuration, made.binary.registers, made.binary.shared_bytes)


def counted(
    machine: Machine, sample: Sample, made: Compiled, configuration: Configuration, gpu: Gpu
) -> Characterisation:
    """Count the work of a sample's blocks, with the caches and latencies of a GPU (scalars)."""
    asked, touched = resources(made, configuration), touched_bytes(machine, made.binary.stack_bytes)
    traffic, of_load = moved(machine, sample, gpu, asked, touched, partial(addresses_of, machine))
    loaded = sum(step.bytes for step in machine.program.steps if step.pipe == "global" and not step.stores)
    slowest = latency_of_slowest(
        sum(traffic.values(), Traffic()), gpu, loaded * machine.launch.threads / SECTOR
    )
    return summary(machine, sample, timing(gpu, of_load), traffic, timing(gpu, slowest))


def run_launch(made: Compiled, listing: Listing, configuration: Configuration) -> tuple[Machine, Sample]:
    """Execute blocks that represent a launch.

    **Raises:** DseError if they cannot be executed, or take more memory than compilers may.
    """
    with memory_limited(made.binary.kernel):
        return run_sample(prepare(listing), launch_of(made, configuration))


def executed(
    made: Compiled, listing: Listing, configuration: Configuration, gpu: Gpu | None
) -> KernelProfile:
    """Profile one configuration by executing its machine code.

    **Raises:** DseError if it cannot be executed.
    """
    machine, sample = run_launch(made, listing, configuration)
    asked = resources(made, configuration)
    end = machine.shared_end - reserved_shared_bytes(made.binary.arch)
    check_shared(made.binary.kernel, end, float(asked.shared_bytes))
    counts = summary(machine, sample) if gpu is None else counted(machine, sample, made, configuration, gpu)
    return KernelProfile.of(counts, asked, made.compiler, made.binary.stack_bytes, made.spill_bytes)
