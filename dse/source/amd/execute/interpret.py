"""Execute code with waves. Those at the same address execute together, the lowest address first, so that they
converge as early as possible. At the start of a loop they wait for others inside it, until these wait for
what others store; at barriers for all of their block. A loop that waits for other blocks ends as if they had
come.
"""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dse.errors import DseError
from dse.source.amd.execute.code import BARRIERS, Code, Stretch
from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.execute.memory_names import memory_access
from dse.source.amd.execute.slots import CONSTANTS, EXEC, VCC
from dse.source.amd.execute.state import NeedsData, Waves
from dse.source.amd.text import Instruction
from dse.source.machine.launch import Dimensions, LaunchArguments

STEP_LIMIT = 300_000


def execute(
    code: Code,
    launch: LaunchArguments,
    blocks: Sequence[Dimensions],
    skip_loops: bool = True,
    step_limit: int = STEP_LIMIT,
    atomics: bool = True,
    waves: Sequence[int] | None = None,
    exact: bool = False,
) -> tuple[MemoryMachine, NeedsData | None]:
    """Run these blocks, or some of their waves, to their end; return (the machine, what needs unstated data).

    Words are followed as far as addresses, branches and masks of lanes need them. Without `atomics`,
    what these return is unstated.

    Trips of loops that would be estimated are run if they must be `exact` and are few.

    **Raises:** DseError for an argument that does not fit, if code runs on after `step_limit` stretches, or
    if many trips would have to be run.
    """
    missing: NeedsData | None = None
    for assume_zeros in (False, True):
        machine = MemoryMachine(
            code.listing, launch, blocks, waves, assume_zeros=assume_zeros, atomics=atomics
        )
        machine.exact = exact
        try:
            Scheduler(code, machine, skip_loops, min(step_limit, launch.most_steps)).run()
            return machine, missing
        except NeedsData as needs:
            missing = needs
    raise DseError(
        f"{code.listing.name}: {missing}: found a value that is not computed, expected one that is"
    )


@contextmanager
def _uncollected() -> Iterator[None]:
    """Disable garbage collection, which took half of the time: the many objects form no cycles."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def asks_others(step: Instruction) -> bool:
    """Return whether an instruction reads what other blocks store: an atomic, or a load past caches."""
    accessed = memory_access(step.opcode)
    past = {"glc", "sc1", "scope"} & {*step.modifiers}
    return (
        accessed is not None
        and accessed.space in ("vmem", "flat")
        and (accessed.kind == "atomic" or bool(past))
    )


class Scheduler:
    """Executes stretches of code, one after another, until all waves have ended."""

    def __init__(self, code: Code, machine: MemoryMachine, skip_loops: bool, step_limit: int) -> None:
        from dse.source.amd.execute.loops import WaveLoopSkipper

        self.code, self.machine, self.step_limit = code, machine, step_limit
        self.ready: dict[int, Waves] = {}
        self.held: dict[int, Waves] = {}  # at a barrier, by their next stretch
        self.before: dict[int, tuple[list[Any], int]] = {}  # where a loop's last trip began
        self.leaving: dict[int, int] = {}  # from the branches out of loops that wait for other blocks
        self.loops = WaveLoopSkipper(machine, code, self.still_running) if skip_loops else None

    def condition(self, name: str) -> np.ndarray | None:
        """Return the condition of a branch without its sign: SCC, or whether a mask has any lane."""
        machine = self.machine
        if name.startswith("scc"):
            return machine.condition()
        mask = machine.mask(VCC if name.startswith("vcc") else EXEC)
        if mask is not None and name.startswith("vcc"):
            mask = mask & machine.exists
        return None if mask is None else machine.any_lane(mask)

    @np.errstate(all="ignore")
    @_uncollected()
    def run(self) -> None:
        """Run all waves to their end."""
        machine, stretches, loops = self.machine, self.code.stretches, self.loops
        self.enter(0, machine.alive)
        executed, came_from, constants = 0, -1, self.code.binder.constants
        while self.ready or self.release():
            index = self.first()
            waves = self.ready.pop(index)
            executed += 1
            if executed > self.step_limit:
                raise self.still_running(index)
            machine.execute_in(waves)
            path = self.spinning(index) if index <= came_from else None
            if path is not None and not self.ready and (exits := self.exits(path)):
                self.leaving |= exits
            elif path is not None and self.ready:
                self.enter(index, waves)
                index = next(iter(self.ready))  # who has waited longest
                waves = self.ready.pop(index)
                machine.execute_in(waves)
            elif loops is not None and index <= came_from:
                loops.trip(index, waves, self.ready)
            came_from = index
            stretch = stretches[index]
            machine.trace.append((index, waves, machine.lanes()))
            actions = stretch.actions
            machine.r += constants[len(machine.r) - CONSTANTS :]
            if loops is not None and loops.followed:
                loops.follow(stretch)
            else:
                for _, action in actions:
                    action(machine)
            self.end(stretch, waves)

    def first(self) -> int:
        """Return the stretch that is executed next."""
        index, stretches = min(self.ready), self.code.stretches
        while inside := [other for other in self.ready if index < other <= stretches[index].last]:
            index = min(inside)
        return index

    def spinning(self, index: int) -> set[int] | None:
        """Return the stretches of a trip of the loop that begins here if it changed no register: it waits."""
        trace, now = self.machine.trace, self.machine.r[:CONSTANTS]
        before, since = self.before.get(index, (None, 0))
        self.before[index] = now, len(trace)
        alike = before is not None and all(
            old is new or (old is not None and new is not None and np.array_equal(old, new))
            for old, new in zip(before, now, strict=True)
        )
        return {at for at, _, _ in trace[since:]} if alike else None

    def exits(self, path: set[int]) -> dict[int, int]:
        """Return the branch out of a loop that asks other blocks, and what follows, if there is only one."""
        within = [self.code.stretches[index] for index in path]
        ends = [(stretch.index, behind) for stretch in within for behind in {*stretch.successors} - path]
        asks = any(asks_others(step) for stretch in within for step in stretch.steps)
        return dict(ends) if asks and len(ends) == 1 else {}

    def enter(self, index: int, waves: Waves) -> None:
        """Let waves enter a stretch next."""
        if index >= len(self.code.stretches):
            raise DseError(
                f"{self.code.listing.name}: found waves behind the last instruction, expected s_endpgm"
            )
        there = self.ready.get(index)
        self.ready[index] = waves if there is None else self.machine.set_of(there.mask | waves.mask)

    def end(self, stretch: Stretch, waves: Waves) -> None:
        """Send waves to their next stretches, from the end of one."""
        machine, end, following = self.machine, stretch.end, stretch.index + 1
        if stretch.index in self.leaving:
            self.enter(self.leaving.pop(stretch.index), waves)
        elif not end:
            self.enter(following, waves)
        elif end == "s_branch":
            self.enter(stretch.target, waves)
        elif end == "s_endpgm":
            machine.end(waves)
        elif end in BARRIERS:
            there = self.held.get(following)
            self.held[following] = waves if there is None else machine.set_of(there.mask | waves.mask)
        else:
            name = end.removeprefix("s_cbranch_")
            condition = self.condition(name)
            if condition is None:
                raise NeedsData(stretch.steps[-1], "branch")
            machine.steered_by_block |= condition.shape[0] > 1
            taken = ~condition if name in ("scc0", "vccz", "execz") else condition
            if self.loops is not None and self.loops.followed:
                self.loops.branch(stretch.steps[-1], name)
            going = waves.mask & taken
            if going.all() or not (waves.mask & ~going).any():
                self.enter(stretch.target, waves)
            elif not going.any():
                self.enter(following, waves)
            else:
                self.enter(stretch.target, machine.set_of(going))
                self.enter(following, machine.set_of(waves.mask & ~going))

    def release(self) -> bool:
        """Release the waves at barriers, as no others can run. Return False if there are none."""
        for index, waves in self.held.items():
            self.enter(index, waves)
        self.held = {}
        return bool(self.ready)

    def still_running(self, index: int) -> DseError:
        """Return the error of code that reaches the limit, or is known to."""
        step = self.code.stretches[index].steps[0]
        names = [f"contents of argument {region - 1}" for region in sorted(self.machine.zeros)]
        because = f"; it depends on {', '.join(names)}" if names else ""
        problem = f"still running after {self.step_limit} stretches, at {step}"
        expected = "an end (an endless loop, or one that waits for memory)"
        return DseError(f"{self.code.listing.name}: {problem}: expected {expected}{because}")
