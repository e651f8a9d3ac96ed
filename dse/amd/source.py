"""Compiles and executes configurations of a kernel's source for an AMD GPU, and keeps on disk what that gives."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dse.amd.compile.clang import clang, targets
from dse.amd.compile.source import Built, HipSource, read_source
from dse.amd.profile.characterise import characterise
from dse.amd.profile.warp import warp_counts
from dse.amd.text import Listing, parse
from dse.cuda.compile.nvrtc import Failure
from dse.cuda.machine.launch import LaunchArguments
from dse.cuda.sass.elf import Parameter
from dse.cuda.source import Configuration, Job, KernelProfile, arguments_of, characterise_all, compiled
from dse.cuda.source_kernel import Toolchain
from dse.errors import DseError
from dse.kernels.description import Description
from dse.types import Gpu


def source_of(description: Description) -> HipSource:
    """Read the source file of a kernel.

    **Raises:** DseError if it has none, cannot be read, or is for NVIDIA only.
    """
    if description.source is None or description.build is None:
        raise DseError(f"{description.path}: source: found none, expected a table with file, block, grid, arguments")
    build = description.build
    return read_source(Path(description.source), build.kernel, given=build.options)


def architecture(gpu: Gpu, source: HipSource | None = None) -> int:
    """Return the target to compile for: 0x90a for gfx90a.

    **Raises:** DseError for one that the compiler does not know.
    """
    if int(gpu.gfx) not in targets():
        raise DseError(f"gpu: gfx_name: found gfx{int(gpu.gfx):x}, expected one that {clang().version} compiles for")
    return int(gpu.gfx)


def _characterise_batch(job: Job) -> dict[str, KernelProfile | Failure]:
    """Profile some configurations, by their keys, and keep the results."""
    from dse.cuda.kept import pack

    results: dict[str, KernelProfile | Failure] = {}
    for name, made in compiled(job, Built).items():
        if isinstance(made, Failure):
            results[name] = made
            continue
        try:
            results[name] = executed(made, job.wanted[name], job.gpu, job.source.kernel)
        except DseError as error:
            results[name] = Failure("not executed", str(error))
    job.cache.put({name: pack(result) for name, result in results.items()})
    return results


def executed(made: Built, configuration: Configuration, gpu: Gpu | None, kernel: str = "") -> KernelProfile:
    """Profile one configuration by executing its machine code.

    **Raises:** DseError if it cannot be executed.
    """
    listing = parse(made.text, kernel or None)
    counts = replace(characterise(listing, launch_of(listing, configuration), configuration, gpu), executed={})
    return KernelProfile(
        registers=listing.vgprs,
        shared_bytes=listing.lds_bytes + (configuration.shared_bytes or 0),
        stack_bytes=listing.scratch_bytes,
        spill_bytes=4 * listing.vgpr_spills,
        compiler=made.compiler,
        counts=counts,
        warp=warp_counts(counts),
    )


@dataclass(frozen=True)
class _Parameters:
    """What a kernel takes, as CUDA's arguments are laid out for it."""

    kernel: str
    parameters: tuple[Parameter, ...]


def launch_of(listing: Listing, configuration: Configuration) -> LaunchArguments:
    """Return a launch as the interpreter takes it.

    **Raises:** DseError if the arguments do not fit the kernel.
    """
    own = [place for place in listing.arguments if not place.kind.startswith("hidden_")]
    parameters = tuple(Parameter(place.offset, place.size) for place in own)
    arguments = arguments_of(_Parameters(listing.name, parameters), configuration.arguments)
    return LaunchArguments(configuration.grid, configuration.block, arguments)


AMD = Toolchain(source_of, architecture, partial(characterise_all, characterise_batch=_characterise_batch))
