"""Runs the threads of a few blocks through a kernel's machine code, all of them as one vector.

Threads that are at the same instruction are executed together, those at the lowest address first, so that
they meet again as early as they can; at convergence points and barriers they wait for each other as on
hardware. Only what addresses and branches depend on is computed. The rest is counted: every basic block by
the warps and threads that enter it, every memory instruction by what it asks for.
"""

from collections.abc import Sequence

import numpy as np

from dse.cuda.execute.actions import actions
from dse.cuda.execute.loop_skipping import Endless, Loops
from dse.cuda.execute.slice import mark_needed
from dse.cuda.machine.launch import Dimensions, LaunchArguments
from dse.cuda.machine.state import BoundProgram, Machine, union
from dse.cuda.machine.thread_set import Lanes
from dse.cuda.sass.operands import PT, UPT
from dse.cuda.sass.program import SassProgram, Step
from dse.errors import DseError


def bind_program(program: SassProgram, global_stores: bool = False) -> BoundProgram:
    """A program ready to run. With `global_stores`, loads see what the kernel itself stored in global memory.

    **Raises:** DseError if there is no rule for a form of an instruction that addresses or branches depend
    on.
    """
    made = BoundProgram(program, mark_needed(program, global_stores), global_stores)
    made.actions = [actions(made, block) for block in program.blocks]
    return made


def run(
    ready: BoundProgram,
    launch: LaunchArguments,
    blocks: Sequence[Dimensions],
    step_limit: int = 200_000,
    skip_loops: bool = True,
    estimate: bool = True,
) -> Machine:
    """Run these blocks of a launch to their end; trips of steady loops are counted without running them.

    With `estimate`, loops too whose addresses depend on data, as far as no branch does: from some of their
    trips. `Machine.estimated` says which, and how far those trips differ.

    **Raises:** DseError if a form of an instruction that matters is not supported, if threads wait for others
    that never come, or after `step_limit` basic blocks: an endless loop, or one that hangs on data not
    stated.
    """
    with np.errstate(all="ignore"):
        machine = Machine(ready, launch, blocks)
        _Scheduler(machine, step_limit, skip_loops, estimate).run()
    if machine.missed_stores and not ready.global_stores:
        again = bind_program(ready.program, global_stores=True)
        return run(again, launch, blocks, step_limit, skip_loops, estimate)
    return machine


class _Scheduler:
    """Which threads go on, and where to."""

    def __init__(self, machine: Machine, step_limit: int, skip_loops: bool, estimate: bool) -> None:
        self.machine, self.step_limit, self.skip_loops = machine, step_limit, skip_loops
        self.loops = Loops(machine, estimate)
        self.ready: dict[int, Lanes] = {}  # basic block → threads that are to enter it
        self.held: dict[int, Lanes] = {}  # basic block → threads at the convergence point in its end
        self.arrived: dict[int, Lanes] = {}  # basic block → threads at the barrier in its end
        self.signalled: dict[str, np.ndarray] = {}  # barrier → threads of each block that did not wait there
        self.ends = {
            "BRA": self.branch, "JMP": self.branch, "CALL": self.branch, "EXIT": self.exit, "RET":
            self.indirect, "BRX": self.indirect, "BRXU": self.indirect, "BSYNC": self.meet, "WARPSYNC":
            self.meet, "BAR": self.barrier,
        }  # fmt: skip

    def run(self) -> None:
        machine = self.machine
        program, actions, loops = machine.program, machine.bound.actions, self.loops
        came_from = -1
        self.enter(0, machine.sets.of(machine.live_mask))
        steps = 0
        while True:
            if not self.ready and not self.release():
                break
            index = min(self.ready)
            lanes = self.ready.pop(index)
            steps += 1
            if steps > self.step_limit:
                raise self.still_running(index)
            if self.skip_loops:
                try:
                    loops.arrive(
                        index, lanes, index <= came_from, min(self.ready, default=len(program.blocks))
                    )
                except Endless:
                    raise self.still_running(index) from None
            came_from = index
            machine.trace.append((index, lanes))
            machine.counts[2 * index] += lanes.warps
            machine.counts[2 * index + 1] += lanes.threads
            if loops.examined:
                before = None
                for step, action in actions[index]:
                    if step is not before:
                        loops.follow(step, lanes)
                    before = step
                    action(machine, lanes)
            else:
                for _, action in actions[index]:
                    action(machine, lanes)
            last = program.blocks[index].steps[-1]
            end = self.ends.get(last.opcode)
            if loops.examined and end is not None:
                loops.end(last, lanes)
            if end is None:
                self.enter(index + 1, lanes)
            else:
                end(index, last, lanes)
        machine.close_phase(np.ones(machine.shape[0], bool), -1)

    def still_running(self, index: int) -> DseError:
        """As found when the limit is reached, or known before."""
        step = self.machine.program.blocks[index].steps[0]
        return DseError(
            f"{self.machine.program.kernel}: still running after {self.step_limit} basic blocks, at"
            f" 0x{step.address:x}: expected an end (an endless loop, or one that waits for"
            f" memory){self.because()}"
        )

    def because(self) -> str:
        taint = 0
        for found in self.machine.unknown.values():
            taint = taint | found
        names = self.machine.sources_of(taint)
        return f"; it depends on what is not stated: {', '.join(names)}" if names else ""

    def enter(self, index: int, lanes: Lanes | None) -> None:
        if lanes is None:
            return
        if index >= len(self.machine.program.blocks):
            step = self.machine.program.steps[-1]
            raise self.machine.program.error(step, "found the end of the code, expected EXIT")
        others = self.ready.get(index)
        self.ready[index] = lanes if others is None else self.machine.sets.of(lanes.mask | others.mask)

    def chosen(self, step: Step, lanes: Lanes) -> Lanes | None:
        """Those that take a branch."""
        machine = self.machine
        taken = machine.under_guard(step, lanes)
        taint = machine.taint[step.guard] if step.guard >= 0 else 0
        for source in step.sources:
            if source.kind == "predicate" and source.slot not in (PT, UPT):
                taint = taint | machine.taint[source.slot]
                taken = machine.where(source.slot, source.negate, taken) if taken is not None else None
            elif source.kind == "predicate" and source.negate:
                taken = None
        machine.note_unknown(step, "branch", taint, lanes)
        if taken is not None and step.has("DIV", "CONV"):
            taken = self.diverged(step, taken)
        return taken

    def diverged(self, step: Step, lanes: Lanes) -> Lanes | None:
        """BRA.DIV goes where the active threads are not those of the mask, as far as these still run."""
        mask = step.sources[0]
        expected = ~self.machine.r[mask.slot] if mask.invert else self.machine.r[mask.slot]
        live = self.machine.sets.of(self.machine.live_mask)
        missing = (expected & live.bits) != lanes.bits
        chosen = self.machine.sets.of(lanes.mask & missing)
        return chosen if chosen.total else None

    def branch(self, index: int, step: Step, lanes: Lanes) -> None:
        taken = self.chosen(step, lanes)
        if taken is not None:
            self.enter(step.jump, taken)
        self.enter(index + 1, self.machine.rest(lanes, taken))

    def exit(self, index: int, step: Step, lanes: Lanes) -> None:
        gone = self.chosen(step, lanes)
        if gone is not None:
            self.machine.exit(gone)
        self.enter(index + 1, self.machine.rest(lanes, gone))

    def indirect(self, index: int, step: Step, lanes: Lanes) -> None:
        """RET goes to an address in a register; BRX adds the one of the next instruction, and a number."""
        machine = self.machine
        taken = machine.under_guard(step, lanes)
        self.enter(index + 1, machine.rest(lanes, taken))
        if taken is None:
            return
        slot = next(source.slot for source in step.sources if source.kind == "register")
        offset = 0
        if step.opcode != "RET":
            offset = step.address + machine.program.spacing
            offset += sum(int(source.text, 0) for source in step.sources if source.kind == "number")
        machine.note_unknown(step, "branch", machine.taint[slot], taken)
        address = np.broadcast_to((machine.r[slot].astype(np.int64) + offset) & 0xFFFFFFFF, machine.shape)
        mask = np.broadcast_to(taken.mask, machine.shape)
        for target in np.unique(address[mask]).tolist():
            if target not in machine.program.block_at:
                names = machine.sources_of(union(machine.taint[slot], taken))
                unknown = f" (it depends on {', '.join(names)})" if names else ""
                raise machine.program.error(
                    step, f"found a jump to 0x{target:x}{unknown}, expected a basic block"
                )
            self.enter(machine.program.block_at[target], machine.sets.of(mask & (address == target)))

    def meet(self, index: int, step: Step, lanes: Lanes) -> None:
        """Those whose warp is complete go on, the others wait."""
        chosen = self.machine.under_guard(step, lanes)
        self.enter(index + 1, self.machine.rest(lanes, chosen))
        if chosen is None:
            return
        others = self.held.pop(index, None)
        if others is not None:
            chosen = self.machine.sets.of(chosen.mask | others.mask)
        complete = self.complete(step, chosen)
        if complete is chosen:
            self.enter(index + 1, chosen)
        else:  # all wait while others may still join them
            self.held[index] = chosen

    def complete(self, step: Step, lanes: Lanes) -> Lanes | None:
        """Those of `lanes` who wait for nobody."""
        machine = self.machine
        source = next((source for source in step.sources if source.slot >= 0), None)
        if source is not None:
            expected = machine.r[source.slot]
        elif step.sources and step.sources[0].kind == "number":
            expected = np.full((1, 1), int(step.sources[0].text, 0), np.uint32)
        else:
            expected = np.full((1, 1), 0xFFFFFFFF, np.uint32)
        if lanes.total == machine.live:
            return lanes
        live = machine.sets.of(machine.live_mask)
        missing = (expected & live.bits & ~lanes.bits) != 0
        chosen = machine.sets.of(lanes.mask & ~missing)
        return lanes if chosen.total == lanes.total else chosen if chosen.total else None

    def barrier(self, index: int, step: Step, lanes: Lanes) -> None:
        machine = self.machine
        chosen = machine.under_guard(step, lanes)
        self.enter(index + 1, machine.rest(lanes, chosen))
        if chosen is None:
            return
        if step.has("ARV"):
            name = step.sources[0].text
            self.signalled[name] = self.signalled.get(name, 0) + chosen.threads
            self.enter(index + 1, chosen)
            return
        others = self.arrived.get(index)
        self.arrived[index] = chosen if others is None else machine.sets.of(chosen.mask | others.mask)

    def release(self) -> bool:
        """Nobody can go on: let those go whose wait is over. False if nobody is left."""
        machine = self.machine
        for index in sorted(self.held):
            lanes = self.held[index]
            complete = self.complete(machine.program.blocks[index].steps[-1], lanes)
            if complete is not None:
                del self.held[index]
                left = machine.rest(lanes, complete)
                if left is not None:
                    self.held[index] = left
                self.enter(index + 1, complete)
                return True
        if self.release_barrier():
            return True
        waiting = sorted({*self.held, *self.arrived})
        if waiting:
            step = machine.program.blocks[waiting[0]].steps[-1]
            raise machine.program.error(
                step, "found threads that wait for others for ever, expected all to arrive"
            )
        return False

    def release_barrier(self) -> bool:
        """Blocks whose threads have all arrived go on."""
        machine = self.machine
        barriers: dict[tuple[str, int], list[int]] = {}
        for index in self.arrived:
            step = machine.program.blocks[index].steps[-1]
            numbers = [source.text for source in step.sources if source.kind == "number"]
            name = step.sources[0].text if step.sources else "0x0"
            members = int(numbers[1], 0) if len(numbers) > 1 else 0
            barriers.setdefault((name, members), []).append(index)
        alive = machine.live_threads()
        released = False
        for (name, members), indices in barriers.items():
            there = np.zeros(machine.shape[0])
            for index in indices:
                there = there + self.arrived[index].threads
            signals = self.signalled.get(name, np.zeros(machine.shape[0]))
            done = (there > 0) & ((there + signals >= members) if members else (there >= alive))
            if not done.any():
                continue
            released = True
            if (done & (there >= alive)).any():
                machine.close_phase(
                    done & (there >= alive), machine.program.blocks[indices[0]].steps[-1].address
                )
            if members and name in self.signalled:
                self.signalled[name] = np.where(done, signals - (members - there), signals)
            for index in indices:
                lanes = self.arrived.pop(index)
                going = machine.sets.of(lanes.mask & done[:, None]) if not done.all() else lanes
                left = machine.rest(lanes, going)
                if left is not None and left.total:
                    self.arrived[index] = left
                self.enter(index + 1, going if going.total else None)
        return released
