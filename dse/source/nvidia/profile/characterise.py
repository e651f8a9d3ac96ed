"""Execute blocks of a launch for an NVIDIA GPU, and count the work of the average block."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from dse.source.caches.cache_model import Traffic
from dse.source.caches.sectors import merged
from dse.source.machine.alike import Boxes
from dse.source.machine.blocks import Sample, sampled
from dse.source.machine.feeds import STEPS, Feeds, feeds_of, joined
from dse.source.machine.launch import OF_LAUNCH, Dimensions, LaunchArguments
from dse.source.machine.liveness import Purpose, reached
from dse.source.machine.recorded import cost_of_accesses, once_each, total_counts
from dse.source.machine.thread_set import WARP
from dse.source.nvidia.execute.interpret import bind_program, bound_for, run
from dse.source.nvidia.execute.moved_blocks import alike_in_control
from dse.source.nvidia.machine.state import BoundProgram, Machine
from dse.source.nvidia.profile.walk import goes_in_step, walk
from dse.source.nvidia.sass.listing import Listing
from dse.source.nvidia.sass.program import BasicBlock, SassProgram, Step, program
from dse.source.nvidia.sass.usual import usual_guards, usual_test
from dse.source.profile.characterise import (
    Characterisation,
    UnknownDecision,
    average_block,
    first_touched,
    sample_weights,
)
from dse.source.profile.single_warp import Timing, longest_warp

_PARTING = ("end", "indirect branch")
_LITTLE = 32  # instructions
_STACK = 1  # the register that points to it
_ACTIONS = 8  # that take as long as to enter a piece of code


def prepare(listing: Listing) -> BoundProgram:
    """Bind a listing, for all launches of a kernel."""
    return bind_program(program(listing))


def run_sample(
    ready: BoundProgram, launch: LaunchArguments, step_limit: int = 200_000
) -> tuple[Machine, Sample]:
    """Choose blocks that represent a launch, and run them.

    **Raises:** as `dse.source.nvidia.execute.interpret.run`.
    """
    loads = [step.index for step in ready.program.steps if step.needed and step.loads_shared]

    def read(feeds: Feeds, block: Dimensions) -> tuple[Feeds, set[int]]:
        alone = bind_program(ready.program, ready.global_stores, Purpose.FEEDS, ready, feeds)
        machine = run(alone, launch, [block], STEPS)
        return machine.fed(), {step.index for step in machine.program.steps if step.needed}

    feeds = feeds_of(loads, launch, read) if loads else None
    while feeds is not None:
        machine, sample = _sampled(bind_program(ready.program, like=ready, feeds=feeds), launch, step_limit)
        before, feeds = feeds, joined(feeds, machine.fed())
        if feeds == before:
            return machine, sample
    return _sampled(ready, launch, step_limit)


def _sampled(ready: BoundProgram, launch: LaunchArguments, step_limit: int) -> tuple[Machine, Sample]:

    def control(blocks: Sequence[Dimensions]) -> tuple[np.ndarray, np.ndarray, int, int]:
        machine = run(bound_for(ready, Purpose.CONTROL), launch, blocks, step_limit)
        lengths = np.zeros((2, machine.bound.rows))
        for block in machine.program.blocks:
            accesses = sum(bool(step.memory) and step.pipe == "global" for step in block.steps)
            lengths[:, 2 * block.index] = len(block.steps), accesses
        actions = sum(len(machine.bound.actions[index]) for index, _ in machine.trace)
        steps = max(len(machine.trace), actions // _ACTIONS)
        return total_counts(machine), lengths, steps, 0  # for control no addresses are recorded

    def prove(steps: int, most: int) -> Boxes | str:
        limit = min(step_limit, max(5_000, 4 * steps))
        return alike_in_control(bound_for(ready, Purpose.CONTROL), launch, limit, most)

    full = partial(run, ready, launch, step_limit=step_limit)
    return sampled(launch.grid, launch.threads, control, full, cost_of_accesses, prove, launch.cluster)


def summary(
    machine: Machine,
    sample: Sample,
    times: Timing | None = None,
    traffic: Mapping[tuple[int, int], Traffic] | None = None,
    in_step: Timing | None = None,
) -> Characterisation:
    """Average the counts of a sample's blocks. The machine has the addresses, in `streams`.

    `traffic` is that of its phases by `dse.source.caches.cache_model.misses`. If warps go `in_step`, one
    among the others of its block is walked too, with its own times.
    """
    block, program_ = sample.typical, machine.program
    warp = longest_warp(machine, program_.blocks, block)
    warps = -(-machine.launch.threads // WARP)
    usually: dict[int, bool] = {}
    for basic_block in program_.blocks:
        usually |= usual_guards(basic_block)
    with_passes = once_each(lambda counters: np.vstack([counters, counters.any(axis=0)]))
    passing = (None if counters is None else with_passes(counters) for counters in machine.phase_counts)
    return average_block(
        machine,
        sample,
        passing,
        walks={} if times is None else walk(machine, block, warp, times),
        in_step=walk(machine, block, warp, in_step, warps) if in_step and goes_in_step(machine) else None,
        traffic=traffic or {},
        touches=first_touched(machine, sample_weights(machine, sample)),
        usually=usually,
        unknown=_unknown(machine, usually),
        estimated={
            program_.blocks[header].steps[0].address: trips for header, trips in machine.estimated.items()
        },
    )


def touched_bytes(machine: Machine, stack_bytes: int | None) -> int | None:
    """Return the bytes of local memory that a thread accesses: all, if some addresses are unknown.

    The compiler may reserve far more than a launch uses, for arrays of the largest case. Skipped loops have
    constant strides, so that their first and last trips, which are executed, are enough.
    """
    spans = machine.local_spans
    unseen = any((step, "address") in machine.unknown for step in spans)
    if stack_bytes is None or unseen or (machine.estimated and any(span.moves for span in spans.values())):
        return stack_bytes
    start, end = np.array([span[:2] for span in sorted(spans.values())] or np.zeros((0, 2)), int).T
    first, last = merged(start, end)
    return min(stack_bytes, int((last - first).sum()))


def _unknown(machine: Machine, usually: Mapping[int, bool]) -> tuple[UnknownDecision, ...]:
    """List the decisions by unstated data, but for guards of spills, and those that usual numbers decide."""
    alone, requests = machine.launch.cluster == (1, 1, 1), total_counts(machine)
    decisions = [
        UnknownDecision(step.address, step.text, step.line, "barrier", (OF_LAUNCH,))
        for step in machine.program.steps
        if alone and step.opcode == "UCGABAR_ARV"
    ]
    for (index, what), taint in sorted(machine.unknown.items()):
        step = machine.program.steps[index]
        if what == "guard" and (index in usually or step.pipe == "local"):
            continue
        names = machine.sources_of(taint)
        deciding = _parts_work, _ends_loop
        matters = what == "address" or (
            what == "branch" and any(decides(machine.program, step) for decides in deciding)
        )
        if what == "branch" and not matters and _is_usual(_deciding(machine.program, step)):
            continue
        row = machine.bound.memory_rows.get(index)
        never = what == "guard" and row is not None and not requests[row].any()
        decisions.append(UnknownDecision(step.address, step.text, step.line, what, names, matters, never))
    return tuple(decisions)


def _ends_loop(program_: SassProgram, branch: Step) -> bool:
    """Return whether a branch decides if threads come to it again."""
    block = _block_of(program_, branch)
    ways = [block.index in _reached(program_, way) for way in _next(program_, block)]
    return any(ways) and not all([*ways, branch.kind != "end"])


def _block_of(program_: SassProgram, branch: Step) -> BasicBlock:
    return next(block for block in program_.blocks if block.steps[-1] is branch)


def _reached(
    program_: SassProgram, start: int, through: int = -1, asked: frozenset[int] = frozenset()
) -> set[int]:
    """Return the basic blocks reachable from one, itself included, but not past block `through`."""
    blocks = program_.blocks
    return reached(start, lambda index: () if index == through else _next(program_, blocks[index], asked))


def _next(program_: SassProgram, block: BasicBlock, asked: frozenset[int] = frozenset()) -> tuple[int, ...]:
    """List the successors in the same function: after a call the block that it returns to."""
    last = block.steps[-1]
    if last.opcode == "RET":
        return ()
    return (block.index + 1,) if _comes_back(program_, last, asked) else block.successors


def _comes_back(program_: SassProgram, step: Step, asked: frozenset[int] = frozenset()) -> bool:
    """Tell a call from a jump that is written as one. Functions of which that is `asked` do come back."""
    if step.opcode != "CALL" or step.jump < 0:
        return False
    inside = () if step.jump in asked else _reached(program_, step.jump, asked=asked | {step.jump})
    return step.jump in asked or any(program_.blocks[index].steps[-1].opcode == "RET" for index in inside)


def _deciding(program_: SassProgram, branch: Step) -> Step | None:
    """Return the step of its block that decides a branch."""
    steps = reversed(_block_of(program_, branch).steps)
    return next((step for step in steps if branch.guard in step.writes), None)


def _is_usual(decides: Step | None) -> bool:
    """Return whether usual numbers decide a comparison."""
    return decides is not None and usual_test(decides) is not None


def _parts_work(program_: SassProgram, branch: Step) -> bool:
    """Tell whether a branch may skip more than a little arithmetic.

    Functions that whole numbers decide on, such as long divisions, are more; those for fractions, and code at
    the edges of their format, are for rare numbers.
    """
    block, target, calls = _block_of(program_, branch), _target(program_, branch), [branch]
    decides = _deciding(program_, branch)
    usual = _is_usual(decides)
    if decides is not None and usual and not decides.has("EQ", "NE", "EQU", "NEU"):
        return False
    whole = decides is not None and decides.opcode == "ISETP" and not usual
    skipped: list[Step] = []
    if not _comes_back(program_, branch):
        ways = [_reached(program_, way, block.index) for way in _next(program_, block)]
        skipped += program_.steps[branch.index + 1 : target]
        for index in ways[0] ^ ways[-1] if ways else ():
            skipped += program_.blocks[index].steps
        calls = [step for step in skipped if _comes_back(program_, step)]
    loops = any(step.branches and -1 < _target(program_, step) <= step.index for step in skipped)
    much = loops or len(skipped) > _LITTLE
    for index in {index for call in calls for index in _reached(program_, call.jump)}:
        skipped += program_.blocks[index].steps
    return (
        target <= branch.index
        or much
        or (bool(calls) and whole)
        or any(
            step.pipe in ("global", "shared", "tensor", "barrier", "texture")
            or (step.pipe == "local" and step.bases != (_STACK,))  # no spilled register: an array
            or step.of_box
            or step.kind in _PARTING
            or (step.branches and _target(program_, step) <= branch.index)
            for step in skipped
            if step.opcode != "RET"
        )
    )


def _target(program_: SassProgram, branch: Step) -> int:
    """Return the index of the step that a branch goes to; before all others if it names none."""
    return program_.blocks[branch.jump].steps[0].index if branch.jump >= 0 else -1
