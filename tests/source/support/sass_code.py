"""Machine code of NVIDIA GPUs for tests: written by hand, compiled, or of stored listings, read once."""

import atexit
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dse.source.machine.launch import Dimensions, LaunchArguments
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.nvrtc import compile_source, read_source
from dse.source.nvidia.execute.interpret import bind_program, run
from dse.source.nvidia.machine.state import BoundProgram, Machine
from dse.source.nvidia.profile.characterise import prepare, run_sample, summary
from dse.source.nvidia.sass.disassemble import disassemble
from dse.source.nvidia.sass.listing import Listing, parse
from dse.source.nvidia.sass.program import SassProgram, program
from dse.source.profile.characterise import Characterisation

LISTINGS = Path(__file__).parents[1] / "nvidia" / "listings"


def listing_of(*code: str, arch: int = 80) -> Listing:
    """A kernel of the name `toy` of instructions with semicolons between them, 16 bytes each from 0 on."""
    instructions = "; ".join(code).split("; ")
    lines = (f"  /*{16 * place:04x}*/ {line} ;" for place, line in enumerate(instructions))
    return parse(f"\t.target sm_{arch}\n\t.section .text.toy,\n" + "\n".join(lines), "toy.sass")[0]


def program_of(*code: str, arch: int = 80) -> SassProgram:
    return program(listing_of(*code, arch=arch))


def ran(
    *code: str, arch: int = 80, threads: int = 32, blocks: int = 1, arguments: tuple = (), **options: Any
) -> Machine:
    """Instructions run by all threads of some blocks."""
    return launched(bind_program(program_of(*code, arch=arch)), blocks, threads, *arguments, **options)


def launched(
    code: BoundProgram, grid: int | Dimensions, block: int | Dimensions, *arguments: Any, **options: Any
) -> Machine:
    """All blocks of a launch, run."""
    x, y, z = size = (grid, 1, 1) if isinstance(grid, int) else grid
    threads = (block, 1, 1) if isinstance(block, int) else block
    # Of spmv, bank 2 holds what the compiler adds to its columns' addresses.
    launch = LaunchArguments(size, threads, arguments, banks={2: (8).to_bytes(8, "little")})
    blocks = [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]
    return run(code, launch, blocks, **options)


def characterise(code: BoundProgram | Listing, launch: LaunchArguments, **options: Any) -> Characterisation:
    """The counts of blocks that represent a launch; of one warp alone too, with `times`."""
    ready = code if isinstance(code, BoundProgram) else prepare(code)
    return summary(*run_sample(ready, launch), **options)


@cache
def compiled(text: str, arch: int = 80, kernel: str = "", **defines: Any) -> Compiled:
    """A kernel in CUDA, compiled."""
    made = compile_source(read_source(file_of(text), kernel), arch, defines)
    assert isinstance(made, Compiled), made
    return made


def prepared(made: Compiled) -> BoundProgram:
    """Compiled code, ready to run."""
    return prepare(disassemble([made.binary])[0])


def file_of(text: str) -> Path:
    """A file with this text until the next one is asked for."""
    path = _folder() / "k.cu"
    path.write_text(text)
    return path


@cache
def _folder() -> Path:
    """One for all sources: for each folder a compiler is started anew."""
    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    return Path(folder.name)


@cache
def stored(kernel: str, arch: int | str = 80) -> Listing:
    """A kernel of `listings/kernels.cu` as compiled for an architecture, or a listing by its name."""
    path = LISTINGS / (f"sm_{arch}.sass" if isinstance(arch, int) else f"{arch}.sass")
    return {listing.kernel: listing for listing in _read(path)}[kernel]


@cache
def bound(kernel: str, arch: int | str = 80) -> BoundProgram:
    """A stored kernel, ready to run."""
    return bind_program(program(stored(kernel, arch)))


@cache
def _read(path: Path) -> tuple[Listing, ...]:
    return tuple(parse(path.read_text(), path.name))
