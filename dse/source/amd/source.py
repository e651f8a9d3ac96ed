"""Compile and execute configurations of a kernel for an AMD GPU."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dse.core.commas import split
from dse.core.processes import memory_limited
from dse.errors import DseError
from dse.kernels.description import Description
from dse.source.amd.compile import triton
from dse.source.amd.compile.clang import clang, knows
from dse.source.amd.compile.source import Built, HipSource, read_source
from dse.source.amd.compile.triton import HipTriton
from dse.source.amd.execute.interpret import execute
from dse.source.amd.profile.characterise import ExecutedLaunch, counted, issue_slots
from dse.source.amd.text import KernelArgument, Listing, parse
from dse.source.contract import Failure
from dse.source.launches import (
    Assumed,
    Configuration,
    NotStated,
    build_of,
    check_shared,
    held,
    is_pointer,
    name_of,
    no_contents,
    too_small,
    unstated,
    unstated_numbers,
    with_names,
)
from dse.source.machine.launch import REGION_BITS, VARIABLE, LaunchArguments, Pointer
from dse.source.machine.recorded import total_counts
from dse.source.nvidia.arguments import arguments_of, as_launched, places_of
from dse.source.nvidia.compile.declared import Declared, parameters_of, variables_of, with_members, zeros_of
from dse.source.nvidia.compile.kernel_names import names
from dse.source.nvidia.compile.triton import has_fractions, numpy_type, with_scratch
from dse.source.profiles import (
    ASSUMED_STEPS,
    Job,
    KernelProfile,
    Toolchain,
    asked_of,
    compiled,
    executed_each,
    with_assumed,
)
from dse.types import Gpu, Resources

RULES = "45"  # change this whenever the computation of counts changes, since they are cached


def source_of(description: Description) -> HipSource | HipTriton:
    """Read the source file of a kernel.

    **Raises:** DseError if it has none, cannot be read, or is for NVIDIA only.
    """
    path, build = build_of(description)
    if path.is_dir():
        return triton.read_folder(path, build.kernel)
    if path.suffix == ".py":
        return triton.read_source(path, build.kernel, build.types, build.options)
    return read_source(path, build.kernel, given=build.options)


def architecture(gpu: Gpu, source: HipSource | HipTriton | None = None) -> int:
    """Return the target to compile for: 0x90a for gfx90a.

    **Raises:** DseError for a target that the compiler does not know.
    """
    target = int(gpu.gfx)
    if isinstance(source, HipTriton):
        targets = source.architectures()
        compiled = f"one of {', '.join(f'gfx{number:x}' for number in targets)} ({source.compiler})"
    else:
        targets = (target,) if knows(target) else ()
        compiled = f"one that {clang().version} compiles for"
    if target not in targets:
        raise DseError(f"gpu: gfx_name: found gfx{target:x}, expected {compiled}")
    return target


def _profiled(job: Job) -> dict[str, KernelProfile | Failure]:
    """Compile and execute some configurations."""
    source: Any = job.source
    gpu = job.gpu
    assert gpu is not None  # needed for the times of waves
    return executed_each(
        job, compiled(job, Built), lambda name, made: completed(made, job.wanted[name], gpu, source)[0]
    )


def run_launch(
    made: Built, configuration: Configuration, gpu: Gpu, source: HipSource | HipTriton
) -> tuple[Listing, Configuration, ExecutedLaunch]:
    """Read the code, and execute blocks that represent the launch, which the code completes.

    **Raises:** DseError if they cannot be read or executed, or take more memory than compilers may.
    """
    with memory_limited(source.kernel or source.path):
        listing = listing_of(made, source.kernel)
        configuration = replace(launched(made, listing, configuration), assumed=zeros_of(source))
    try:
        return listing, configuration, execution(made, listing, configuration, gpu)
    except DseError as error:
        parameters = [parameter.name for parameter in declared_of(source, made)]
        raise type(error)(with_names(str(error), partial(name_of, parameters))) from None


def execution(made: Built, listing: Listing, configuration: Configuration, gpu: Gpu) -> ExecutedLaunch:
    """Execute blocks that represent a launch, which the code has completed.

    **Raises:** DseError if they cannot be executed, or take more memory than compilers may.
    """
    with memory_limited(listing.name):
        own = _own_arguments(listing)
        places = places_of([(argument.offset, argument.size) for argument in own], configuration.arguments)
        members = tuple(KernelArgument(*place, "member") for place in places[len(own) :])
        hidden = listing.arguments[len(own) :]
        listing = replace(listing, arguments=(*own, *members, *hidden))
        launch = launch_of(listing, configuration)
        return ExecutedLaunch(listing, launch, gpu, joins(made.compiler, gpu))


def completed(
    made: Built, configuration: Configuration, gpu: Gpu, source: HipSource | HipTriton
) -> tuple[KernelProfile, Configuration]:
    """Profile a configuration; return the launch too, completed by the code and by what is assumed.

    **Raises:** DseError if it cannot be executed, or depends on unstated arguments.
    """
    listing, configuration, ran = run_launch(made, configuration, gpu, source)
    asked, spilled = resources(listing, configuration), 4 * listing.vgpr_spills
    check_shared(listing.name, ran.record.lds_end, float(asked.shared_bytes))
    before = ran

    def profiled(assumed: Configuration) -> tuple[KernelProfile, dict[int | str, tuple[str, str]], bool]:
        ran = before if assumed is configuration else execution(made, listing, assumed, gpu)
        zeros = check_stated(ran, declared_of(source, made), assumed, variables_of(source))
        if ran.missing is not None and not zeros:
            ran.unknown = ran.decision(ran.missing)
        counts = counted(ran, asked)
        made_profile = KernelProfile.of(
            counts, asked, made.compiler, listing.scratch_bytes, spilled, issue_slots
        )
        requests = total_counts(ran.record)[[*ran.record.bound.memory_rows.values()]]
        return made_profile, zeros, not requests.any(axis=1).all()

    return with_assumed(configuration, profiled)


def declared_of(source: HipSource | HipTriton, made: Built) -> Sequence[Declared]:
    """Return the parameters of the compiled code, as declared in the source."""
    if not isinstance(source, HipTriton):
        return with_members(parameters_of(source) or ())
    taken = [passed.argument for passed in made.launched.passed or ()] if made.launched else []
    return [_of_triton(source, index) for index in taken]


def _of_triton(source: HipTriton, place: int | None) -> Declared:
    if place is None:
        return Declared("", pointer=True)
    kind = source.types[place]
    pointer = kind.startswith("*")
    whole = pointer and not has_fractions(kind)
    return Declared(source.names[place], pointer, whole=whole, kind=numpy_type(kind) if pointer else "")


def check_stated(
    ran: ExecutedLaunch,
    declared: Sequence[Declared],
    configuration: Configuration,
    variables: Mapping[str, Declared],
) -> dict[int | str, tuple[str, str]]:
    """Return arrays of unstated fractions, taken as zeros, that may decide on work.

    By the place of the argument, or the name of a variable, the name and type.

    **Raises:** DseError that names what the launch depends on: unstated numbers, or unstated whole numbers
    in arrays.
    """
    if ran.missing is None:
        return {}
    kernel, zeros = ran.listing.name, dict[int | str, tuple[str, str]]()
    for region in ran.machine.outside:
        raise NotStated(too_small(kernel, name_of([parameter.name for parameter in declared], region - 1)))
    numbers = unstated_numbers(configuration.arguments)
    if numbers and (needed := _needed(ran, numbers, configuration)):
        raise NotStated(unstated(kernel, [parameter.name for parameter in declared], needed))
    steps = ran.record.program.steps
    evaluated = ran.code.evaluated
    loads = [(steps[it.index], it.base) for it in ran.machine.accesses if it.index in evaluated]
    loads = sorted((not step.atomic, int(base.flat[0])) for step, base in loads if step.writes and base.size)
    loaded = dict.fromkeys((address >> REGION_BITS) - 1 for _, address in loads)  # first by atomics
    leads, guards = (ran.missing.what == what for what in ("address", "guard"))
    does = "says where others are read" if leads else "ends or skips work"
    arrays: dict[int | str, Declared] = {
        index: declared[index]
        for index in loaded
        if 0 <= index < min(len(declared), len(configuration.arguments))
        and declared[index].pointer
        and configuration.arguments[index] is None
    }
    launch = ran.record.launch
    for region, name in enumerate(ran.listing.symbols, len(launch.arguments) + 2):
        if region in loaded and launch.variables[name].contents is None:
            variable = variables.get(name, Declared(name, False, whole=True))
            arrays[name] = replace(variable, name=VARIABLE + name)
    if numbers and not arrays:
        raise NotStated(unstated(kernel, [parameter.name for parameter in declared], numbers))
    for place, array in _deciding(ran, arrays).items():
        if ((array.whole and not guards) or leads) and not is_pointer(array.kind):
            raise NotStated(no_contents(kernel, array.name, does, array.kind or "int32"))
        zeros[place] = array.name, array.kind or "float"
    return zeros


_ZEROS = Pointer(np.zeros(1024, np.uint32), repeats=True)


def _deciding(ran: ExecutedLaunch, arrays: Mapping[int | str, Declared]) -> Mapping[int | str, Declared]:
    """Return those of unstated arrays that decide on work even if the others are known; all if none does."""
    launch = ran.record.launch
    contents = {
        place: _ZEROS
        if array.whole and not is_pointer(array.kind)
        else Assumed(array.kind or "float").pointer(seed)
        for seed, (place, array) in enumerate(arrays.items())
    }

    def decides(place: int | str) -> bool:
        others = {other: pointer for other, pointer in contents.items() if other != place}
        arguments = [others.get(index, argument) for index, argument in enumerate(launch.arguments)]
        variables = {name: others.get(name, variable) for name, variable in launch.variables.items()}
        return _lacks(ran, replace(launch, arguments=arguments, variables=variables))

    if len(arrays) < 2:
        return arrays
    return {place: array for place, array in arrays.items() if decides(place)} or arrays


def _needed(ran: ExecutedLaunch, numbers: Sequence[int], configuration: Configuration) -> list[int]:
    """Return which of these numbers the blocks need, if arrays hold zeros; all if that cannot be decided."""

    launch = launch_of(ran.listing, configuration)

    def needs(unknown: int | None) -> bool:
        zeros = {*numbers} - {unknown}
        arguments = [
            _ZEROS if argument is None else bytes(argument.bytes) if index in zeros else argument
            for index, argument in enumerate(launch.arguments)
        ]
        return _lacks(ran, replace(launch, arguments=arguments))

    return list(numbers) if needs(None) else [index for index in numbers if needs(index)]


def _lacks(ran: ExecutedLaunch, launch: LaunchArguments) -> bool:
    """Return whether the blocks of a launch need what it does not state, or do not end soon."""
    try:
        return execute(ran.code, replace(launch, most_steps=ASSUMED_STEPS), ran.sample.blocks)[1] is not None
    except DseError:  # such as of a loop that random numbers do not end
        return True


def joins(compiler: str, gpu: Gpu) -> bool:
    """Return whether the GPU's own compiler merges adjacent loads from the LDS, unlike this one.

    LLVM merged them before version 15; the GPU's file says whether its compiler is as old.
    """
    version = re.match(r"clang (\d+)", compiler)
    return float(gpu.shared_unaligned) > 1.0 and version is not None and int(version[1]) >= 15


def listing_of(made: Built, kernel: str) -> Listing:
    """Parse the assembly of the kernel with that name, mangled or not; "": of the only one, as Triton's is.

    Triton may name it otherwise than its function: by `repr`.
    """
    kernel = kernel if made.launched is None else ""
    symbols = re.findall(r"^\s+\.amdhsa_kernel (\S+)", made.text, re.MULTILINE)
    wanted = [symbol for symbol in symbols if not kernel or names(symbol, kernel)]
    if len(wanted) > 1:  # a template, and specialisations
        wanted = [symbol for symbol in wanted if re.search(_mangled(kernel), symbol)]
    return parse(made.text, wanted[0] if len(wanted) == 1 else kernel or None)


def _mangled(kernel: str) -> str:
    """Return a pattern of the mangled name of a template with arguments, as far as these are plain."""
    name, _, rest = kernel.partition("<")
    name = name.split("::")[-1].strip()
    arguments = (part.strip() for part in split(rest.removesuffix(">"), "<>()"))
    codes = (rf"L\w{part}E" if part.isdigit() else _CODES.get(part, r"\w+?") for part in arguments)
    return f"{len(name)}{name}I{''.join(codes)}E"


_CODES = {  # Itanium C++ ABI, 5.1.5
    **dict(zip(("float", "double", "int", "bool", "char", "short", "long"), "fdibcsl", strict=True)),
    **dict(zip(("unsigned", "unsigned int", "unsigned char", "uint8_t"), "jjhh", strict=True)),
    **dict.fromkeys(("half", "__half", "_Float16"), "DF16_"),
    **dict.fromkeys(("__nv_bfloat16", "nv_bfloat16"), "DF16b"),
    "true": "Lb1E",
    "false": "Lb0E",
}


def resources(listing: Listing, configuration: Configuration) -> Resources:
    """Return the resources of a launch."""
    return asked_of(configuration, listing.vgprs, listing.lds_bytes)


def launched(made: Built, listing: Listing, configuration: Configuration) -> Configuration:
    """Return a configuration with its compiler's launch, if there is one."""
    if made.launched is None:
        return configuration
    padded = with_scratch(made.launched, len(_own_arguments(listing)))
    return as_launched(replace(made, launched=padded), configuration)


def _own_arguments(listing: Listing) -> list[KernelArgument]:
    return [argument for argument in listing.arguments if not argument.kind.startswith("hidden_")]


def launch_of(listing: Listing, configuration: Configuration) -> LaunchArguments:
    """Return a launch for the interpreter.

    **Raises:** DseError if the arguments do not fit the kernel.
    """
    sizes = [argument.size for argument in _own_arguments(listing)]
    arguments = arguments_of(listing.name, sizes, configuration.arguments)
    assumed = dict(configuration.assumed)
    variables = {
        name: held(words, assumed.get(name), place)
        for place, (name, words) in enumerate(listing.symbols.items(), len(arguments))
    }
    shape, most = (configuration.grid, configuration.block), configuration.most_steps
    return LaunchArguments(*shape, arguments, variables=variables, most_steps=most)


AMD = Toolchain(source_of, architecture, lambda: _profiled, RULES)
