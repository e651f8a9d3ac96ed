"""Interpret a kernel's machine code for the threads of a few blocks, as one vector.

Threads at the same instruction are executed together, those at the lowest address first, so that they
converge as early as possible; at convergence points and barriers they wait for each other as on hardware.
Only values on which addresses and branches depend are computed. The rest is counted: the warps and threads
that enter a basic block, and the requests of memory instructions.
"""

from collections.abc import Sequence

import numpy as np

from dse.errors import DseError
from dse.source.machine.feeds import Feeds
from dse.source.machine.launch import VARIABLE, Dimensions, LaunchArguments
from dse.source.machine.liveness import Purpose
from dse.source.machine.thread_set import Lanes
from dse.source.nvidia.execute.actions import actions
from dse.source.nvidia.execute.induction import Examination
from dse.source.nvidia.execute.jumps import taking, targets
from dse.source.nvidia.execute.loop_skipping import LoopPolicy, LoopSkipper, WaitsForBlocks
from dse.source.nvidia.execute.side_by_side import Path, SideBySide
from dse.source.nvidia.execute.slice import mark_needed
from dse.source.nvidia.execute.tiling import Tiling
from dse.source.nvidia.execute.waiting import (
    FOR_EVER,
    BlockBarriers,
    ConvergencePoints,
    ReadyThreads,
    check_arrivals,
)
from dse.source.nvidia.machine.state import BoundProgram, Machine
from dse.source.nvidia.sass.program import BasicBlock, SassProgram, Step


def bind_program(
    program: SassProgram,
    global_stores: bool = False,
    purpose: Purpose = Purpose.COUNTS,
    like: BoundProgram | None = None,
    feeds: Feeds | None = None,
    only: frozenset[int] | None = None,
) -> BoundProgram:
    """Bind a program. With `global_stores`, loads return what the kernel itself stored in global memory.
    `feeds` are the stores that loads from shared memory read, without it any. `like` is the program bound for
    another purpose; addresses are needed for themselves of `only` some instructions.
    """
    if purpose is not Purpose.COUNTS or feeds is not None:
        program = _copied(program)  # since steps have `needed`
    live = mark_needed(program, global_stores, purpose, feeds, only)
    bound = BoundProgram(program, live, global_stores, purpose, like, feeds, only)
    bound.actions = [actions(bound, block) for block in program.blocks]
    return bound


def bound_for(bound: BoundProgram, purpose: Purpose, only: frozenset[int] | None = None) -> BoundProgram:
    """Return a bound program, bound for another purpose, as `bind_program`."""
    less = bound.less.get((purpose, only))
    if less is None:
        less = bind_program(bound.program, bound.global_stores, purpose, bound, bound.feeds, only)
        bound.less[purpose, only] = less
    return less


def _copied(program: SassProgram) -> SassProgram:
    """Copy a program and its steps."""
    steps = [step.copied() for step in program.steps]
    blocks = [
        BasicBlock(block.index, [steps[step.index] for step in block.steps], block.successors)
        for block in program.blocks
    ]
    return SassProgram(program.kernel, program.arch, steps, blocks, program.block_at)


def run(
    bound: BoundProgram,
    launch: LaunchArguments,
    blocks: Sequence[Dimensions],
    step_limit: int = 200_000,
    loops: LoopPolicy = LoopPolicy.ESTIMATE,
    warps: Sequence[int] | None = None,
) -> Machine:
    """Run these blocks of a launch to their end; trips of steady loops are counted without running them.

    `loops` selects these trips. Loops in which addresses, but no branches, depend on data are estimated from
    some of their trips: `Machine.estimated` has them, and how much those trips differ.

    **Raises:** DseError if a needed instruction is not supported, if threads wait forever, or after
    `step_limit` basic blocks: an endless loop, or one that depends on data not stated.
    """
    with np.errstate(all="ignore"):
        machine = Machine(bound, launch, blocks, warps)
        Scheduler(machine, min(step_limit, launch.most_steps), loops).run()
    if machine.missed_stores and not bound.global_stores:
        with_stores = bind_program(bound.program, True, bound.purpose, feeds=bound.feeds, only=bound.only)
        return run(with_stores, launch, blocks, step_limit, loops, warps)
    if bound.purpose is Purpose.COUNTS and warps is None:
        check_arrivals(machine)
    return machine


_LOOK = 4096  # basic blocks after which a loop that is still running is looked at
_UNSTATED = "contents of", "argument", VARIABLE


class Scheduler:
    """Executes basic blocks, one after another, until all threads have ended."""

    def __init__(self, machine: Machine, step_limit: int, loops: LoopPolicy) -> None:
        self.machine, self.step_limit, self.policy = machine, step_limit, loops
        self.executed = 0  # basic blocks
        self.loops = LoopSkipper(machine, loops is LoopPolicy.ESTIMATE, self.still_running)
        self.side_by_side = SideBySide(machine, self.loops, self.follow)
        self.ready = ReadyThreads(machine)
        self.convergence = ConvergencePoints(machine, self.ready)
        self.barriers = BlockBarriers(machine, self.ready)
        self.ends = {
            "BRA": self.branch, "JMP": self.branch, "CALL": self.branch, "EXIT": self.exit, "RET":
            self.jump, "BRX": self.jump, "BRXU": self.jump, "BSYNC": self.convergence.arrive, "WARPSYNC":
            self.convergence.arrive, "BAR": self.barriers.arrive,
        }  # fmt: skip

    def run(self) -> None:
        """Run all threads to their end."""
        machine, ready = self.machine, self.ready
        ready.enter(0, machine.sets.of(machine.live_mask))
        came_from = -1
        while ready or self.release():
            index, lanes = ready.take_lowest()
            self.executed += 1
            if self.executed > self.step_limit or (not self.executed % _LOOK and self.ends_by_unstated()):
                raise self.still_running(index, min(self.executed, self.step_limit))
            try:
                if self.policy is not LoopPolicy.RUN:
                    self.watch(index, lanes, came_from)
            except WaitsForBlocks as loop:
                ready.enter(loop.behind, lanes)
                continue
            came_from = index
            self.count(index, lanes)
            self.execute(index, lanes)
        machine.close_phase(np.ones(machine.shape[0], bool), -1)

    def count(self, index: int, lanes: Lanes) -> None:
        """Record that threads execute a basic block."""
        machine = self.machine
        machine.trace.append((index, lanes))
        machine.counts[2 * index] += lanes.warps
        machine.counts[2 * index + 1] += lanes.threads

    def watch(self, index: int, lanes: Lanes, came_from: int) -> None:
        """Skip trips of a loop whose first basic block threads are about to enter."""
        if index > came_from:
            self.loops.enter_from_above(index, lanes)
            return
        self.loops.enter_from_below(index, lanes, self.ready.lowest)
        if index in self.machine.irregular:
            most = self.step_limit - self.executed
            self.executed += self.side_by_side.enter(index, lanes, self.ready.lowest, most)

    def follow(
        self, wide: Machine, path: Path, tiling: Tiling, examined: Sequence[Examination]
    ) -> np.ndarray:
        """Run a machine whose rows are trips of a loop along a path; return which rows follow it: [rows]."""
        good = np.ones(wide.shape[0], bool)
        scheduler = Scheduler(wide, 0, LoopPolicy.RUN)
        scheduler.loops.examined += examined
        scheduler.ready.enter(path[0][0], wide.sets.of(tiling.of(path[0][1].mask)))
        for number, (index, lanes) in enumerate([*path, path[0]]):
            if not scheduler.ready and not scheduler.release():
                return ~good
            entered, there = scheduler.ready.take_lowest()
            expected = wide.sets.of(tiling.of(lanes.mask))
            if entered != index or there is not expected:
                astray = there.mask if entered != index else there.mask != expected.mask
                return good & ~astray.any(axis=1)
            if number < len(path):
                scheduler.count(index, there)
                scheduler.execute(index, there)
        return good

    def execute(self, index: int, lanes: Lanes) -> None:
        """Execute the steps of a basic block, and send threads to their next blocks."""
        machine, loops = self.machine, self.loops
        if loops.examined:
            before = None
            for step, action in machine.bound.actions[index]:
                if step is not before:
                    loops.follow(step, lanes)
                before = step
                action(machine, lanes)
        else:
            for _, action in machine.bound.actions[index]:
                action(machine, lanes)
        last = machine.program.blocks[index].steps[-1]
        end = self.ends.get(last.opcode)
        if end is None:
            self.ready.enter(index + 1, lanes)
            return
        if loops.examined:
            loops.follow(last, lanes, ends=True)
        end(index, last, lanes)

    def branch(self, index: int, step: Step, lanes: Lanes) -> None:
        """Send threads to a branch's target, or on. **Raises:** DseError for a call out of the kernel."""
        taken = taking(self.machine, step, lanes)
        if taken is not None and step.jump < 0:
            outside = (
                "found a call that leaves the kernel, of printf, malloc, code compiled apart or by a pointer"
            )
            raise self.machine.program.error(step, f"{outside}, expected all that runs in it")
        if taken is not None:
            self.ready.enter(step.jump, taken)
        self.ready.enter(index + 1, self.machine.rest(lanes, taken))

    def exit(self, index: int, step: Step, lanes: Lanes) -> None:
        """End some threads; the others continue."""
        gone = taking(self.machine, step, lanes)
        if gone is not None:
            self.machine.exit(gone)
        self.ready.enter(index + 1, self.machine.rest(lanes, gone))

    def jump(self, index: int, step: Step, lanes: Lanes) -> None:
        """Send threads to addresses in a register, or on."""
        jumping = self.ready.pass_on(index, step, lanes)
        if jumping is not None:
            for target, going in targets(self.machine, step, jumping):
                self.ready.enter(target, going)

    def release(self) -> bool:
        """Release satisfied barriers. Return False when all threads have ended.

        **Raises:** DseError for a deadlock.
        """
        if self.convergence.release() or self.barriers.release():
            return True
        waiting = sorted({*self.convergence.held, *(meeting[0] for meeting in self.barriers.arrived)})
        if waiting:
            program = self.machine.program
            step = program.blocks[waiting[0]].steps[-1]
            raise program.error(step, FOR_EVER)
        return False

    def ends_by_unstated(self) -> bool:
        """Return whether the loop that goes on depends on unstated contents alone for its end."""
        machine, blocks = self.machine, self.machine.program.blocks
        inside = {index for index, _ in machine.trace[-_LOOK:]}
        ends = {index for index in inside if not inside.issuperset(blocks[index].successors)}
        ends |= {index for index in inside if blocks[index].steps[-1].kind == "end"}
        unknown = (machine.unknown.get((blocks[index].steps[-1].index, "branch"), 0) for index in ends)
        names = [machine.sources_of(taint) for taint in unknown]
        return all(any(name.startswith(_UNSTATED) for name in of_end) for of_end in names)

    def still_running(self, index: int, executed: int = 0) -> DseError:
        """Return the error of a kernel that reaches the limit, or is known to, after `executed` blocks."""
        program = self.machine.program
        taint = 0
        for bits in self.machine.unknown.values():
            taint = taint | bits
        names = self.machine.sources_of(taint)
        because = f"; it depends on {', '.join(names)}" if names else ""
        step = program.blocks[index].steps[0]
        at = f"0x{step.address:x}" + (f", line {step.line}" if step.line else "")
        problem = f"still running after {executed or self.step_limit} basic blocks, at {at}"
        expected = "an end (an endless loop, or one that waits for memory)"
        if any("TIMER" in name for name in names):  # such a wait gives up after a time
            expected = "none that waits by the clock, as cuda::pipeline of a block before sm_90 does"
        return DseError(f"{program.kernel}: {problem}: expected {expected}{because}")
