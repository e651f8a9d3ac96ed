"""Kernels in CUDA, compiled once in a process, and run by the interpreter of either vendor."""

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from support import sass_code

from dse.source.amd.compile import source as clang
from dse.source.amd.execute.code import Code, code_of
from dse.source.amd.execute.interpret import execute
from dse.source.amd.profile import alike
from dse.source.amd.profile.record import executions
from dse.source.amd.text import parse
from dse.source.machine.alike import Boxes
from dse.source.machine.launch import Dimensions, LaunchArguments
from dse.source.machine.liveness import Purpose
from dse.source.machine.recorded import total_counts
from dse.source.nvidia.execute import moved_blocks
from dse.source.nvidia.execute.interpret import bound_for, run
from dse.source.nvidia.execute.loop_skipping import LoopPolicy
from dse.source.nvidia.machine.state import BoundProgram
from dse.source.nvidia.profile.characterise import prepare
from dse.source.nvidia.sass import elf
from dse.source.nvidia.sass.disassemble import disassemble

NVIDIA, AMD = ("sm_75", "sm_80", "sm_90", "sm_120"), ("gfx90a", "gfx942", "gfx1100")


@dataclass(frozen=True)
class Access:
    """One instruction that accesses memory (of NVIDIA, global): [blocks, threads], and its trips."""

    instruction: int
    address: np.ndarray
    active: np.ndarray
    trips: np.ndarray  # bytes from `address`


@dataclass(frozen=True)
class Ran:
    """What a launch did."""

    accesses: list[Access]
    executed: Counter[Any]  # by what is executed, in whatever units the engine counts
    machine: Any  # the engine's own

    def addresses(self) -> dict[int, np.ndarray]:
        """All addresses that each instruction asks for, in order of size."""
        asked: dict[int, list[np.ndarray]] = {}
        for access in self.accesses:
            places = access.address[access.active] + access.trips[:, None]
            asked.setdefault(access.instruction, []).append(places.ravel())
        return {instruction: np.sort(np.concatenate(places)) for instruction, places in asked.items()}


@cache
def compiled(text: str, target: str) -> dict[str, BoundProgram | Code]:
    """All kernels of a source, ready to run."""
    names = [part.split("(")[0] for part in text.split('extern "C" __global__ void ')[1:]]
    if target.startswith("sm_"):
        made = sass_code.compiled(text, int(target[3:]), names[0])
        listings = disassemble(list(elf.read(made.cubin, "k").values()))
        return {listing.kernel: prepare(listing) for listing in listings}
    source = clang.read_source(sass_code.file_of(text), names[0])
    built = clang.compile_source(source, int(target[3:], 16), ())
    assert isinstance(built, clang.Built), built
    return {name: code_of(parse(built.text, name), Purpose.COUNTS) for name in names}


def ran(
    text: str, kernel: str, target: str, grid: Dimensions, threads: int, *arguments: Any, skip: bool = True
) -> Ran:
    """A launch of a kernel, all blocks run."""
    launch = LaunchArguments(grid, (threads, 1, 1), arguments)
    blocks = [(x, y, 0) for y in range(grid[1]) for x in range(grid[0])]
    return ran_code(compiled(text, target)[kernel], launch, blocks, skip)


def ran_code(
    code: BoundProgram | Code, launch: LaunchArguments, blocks: list[Dimensions], skip: bool = True
) -> Ran:
    """Some blocks of a launch, run; `skip` trips of loops."""
    return (_ran_amd if isinstance(code, Code) else _ran_nvidia)(code, launch, blocks, skip)  # type: ignore[arg-type]


def _ran_nvidia(code: BoundProgram, launch: LaunchArguments, blocks: list[Dimensions], skip: bool) -> Ran:
    machine = run(code, launch, blocks, loops=LoopPolicy.SKIP if skip else LoopPolicy.RUN)
    assert not machine.unknown
    accesses = [
        Access(
            stream.step,
            np.broadcast_to(stream.base, machine.shape),
            np.broadcast_to(stream.lanes.mask, machine.shape),
            stream.offsets(),
        )
        for stream in machine.streams
    ]
    executed: Counter[Any] = Counter()
    for phase, counts in zip(machine.phases, machine.phase_counts, strict=True):
        if counts is not None:
            executed.update({(phase.opened, phase.closed, *place): n for place, n in np.ndenumerate(counts)})
    return Ran(accesses, executed, machine)


def _ran_amd(code: Code, launch: LaunchArguments, blocks: list[Dimensions], skip: bool) -> Ran:
    machine, missing = execute(code, launch, blocks, skip_loops=skip)
    assert missing is None, missing
    flat = len(blocks), -1
    accesses = [
        Access(
            access.index,
            np.broadcast_to(access.base, machine.shape).reshape(flat),
            np.broadcast_to(access.lanes, machine.shape).reshape(flat),
            np.array([access.offset + trip * int(access.stride) for trip in access.trips]),
        )
        for access in machine.accesses
    ]
    times = np.ones(len(machine.trace), int)
    for start, end, more in machine.repeats:
        times[start:end] += more
    executed: Counter[Any] = Counter()
    for (index, waves, lanes), count in zip(machine.trace, times.tolist(), strict=True):
        executed[index, "waves"] += count * waves.count
        executed[index, "lanes"] += count * int(np.broadcast_to(lanes & waves.mask, machine.shape).sum())
    return Ran(accesses, executed, machine)


def boxes_of_blocks(code: BoundProgram | Code, launch: LaunchArguments) -> tuple[np.ndarray, Boxes | str]:
    """How often each block executes each piece of code, [pieces, y, x]; the boxes of a grid, or why none."""
    (width, height, _), most = launch.grid, launch.grid[0] * launch.grid[1]
    blocks = [(x, y, 0) for y in range(height) for x in range(width)]
    if isinstance(code, Code):
        code = code_of(code.listing, Purpose.CONTROL)
        counts = executions(execute(code, launch, blocks, skip_loops=False)[0], len(code.stretches))
        return counts.reshape(-1, height, width), alike.alike_in_control(code, launch, most)
    bound = bound_for(code, Purpose.CONTROL)
    counts = total_counts(run(bound, launch, blocks, loops=LoopPolicy.RUN))[: 2 * len(code.program.blocks)]
    boxes = moved_blocks.alike_in_control(bound, launch, 200_000, most)
    if isinstance(boxes, Boxes) and not len(boxes.sizes):  # all blocks do the same
        boxes = Boxes(np.zeros((1, 3), int), np.array([most]), counts[:, :1], exact=True)
    return counts.reshape(-1, height, width), boxes
