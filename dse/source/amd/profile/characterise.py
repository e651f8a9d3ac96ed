"""Count the work of a launch's average block on an AMD GPU, phase by phase between its barriers."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import numpy as np

from dse.errors import DseError
from dse.source.amd.execute.access import returns
from dse.source.amd.execute.code import code_of
from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.execute.feeds import fed, feeds_in
from dse.source.amd.execute.interpret import execute
from dse.source.amd.execute.memory_names import memory_access
from dse.source.amd.execute.state import NeedsData
from dse.source.amd.profile.alike import alike_in_control, followed
from dse.source.amd.profile.pipes import Turns, turns
from dse.source.amd.profile.record import BlockRecord, executions, record, times_of
from dse.source.amd.profile.walk import timing, walk
from dse.source.amd.text import Listing
from dse.source.machine.addresses import Addresses, Strides, most_pieces
from dse.source.machine.alike import Apart, Boxes
from dse.source.machine.blocks import sampled
from dse.source.machine.feeds import joined
from dse.source.machine.launch import OF_ATOMICS, Dimensions, LaunchArguments
from dse.source.machine.liveness import Purpose
from dse.source.machine.recorded import cost_of_accesses
from dse.source.machine.thread_set import WARP
from dse.source.profile.characterise import Characterisation, PhaseCounts, UnknownDecision, average_block
from dse.source.profiles import moved
from dse.types import Gpu, Resources

# The common names of the pipes of a SIMD's vector unit, and of its scalar unit.
_VECTOR = ("fp32", "fp64", "int32", "imul32", "sfu", "tensor")
_SCALAR = ("uniform", "constant", "control", "barrier")
_SHORT = 200  # stretches
_FEW = 2**18  # instructions of the waves of a block, which are executed rather than estimated


class ExecutedLaunch:
    """One launch, with some executed blocks."""

    def __init__(self, listing: Listing, launch: LaunchArguments, gpu: Gpu, joins: bool = False) -> None:
        self.listing, self.launch, self.gpu = listing, launch, gpu
        self._whole = code_of(listing)
        self.turns: Turns = turns(listing)
        self._how = self.turns, float(gpu.cpi.fp64) <= float(gpu.cpi.fp32), joins
        self._feeds = feeds_in(self._whole, launch)
        while not self._run():  # loads read more than in the first block
            pass
        # What the first decision depends on, unless that is unstated arguments.
        self.unknown: tuple[UnknownDecision, ...] = ()
        if self.missing is None and self._atomics_return:  # the first address or branch that these decide on
            self.unknown = self.decision(execute(self.code, launch, self.sample.blocks, atomics=False)[1])

    def _run(self) -> bool:
        """Run blocks that represent the launch; return whether it was known what they read from the LDS."""
        launch = self.launch
        self.code = self._whole.needed_for(Purpose.COUNTS, feeds=self._feeds)
        for_control = self._whole.needed_for(Purpose.CONTROL, feeds=self._feeds)
        lengths = np.zeros((2, 2 * len(self.code.stretches)))
        for number, stretch in enumerate(self.code.stretches):
            accesses = [access for step in stretch.steps if (access := memory_access(step.opcode))]
            lengths[:, 2 * number] = len(stretch.steps), sum(it.space in ("vmem", "flat") for it in accesses)

        steered: list[bool] = []

        def control(blocks: Sequence[Dimensions]) -> tuple[np.ndarray, np.ndarray, int, int]:
            machine, _ = execute(for_control, launch, blocks)
            steered.append(machine.steered_by_block)
            held = {id(x): x.nbytes for access in machine.accesses for x in (access.base, access.lanes)}
            counts = executions(machine, len(self.code.stretches))
            evaluated = sum(bool(for_control.stretches[index].actions) for index, _, _ in machine.trace)
            return counts, lengths, evaluated, sum(held.values())

        def prove(steps: int, most: int) -> Boxes | str:
            if not any(steered):
                return Boxes.alike(lengths.shape[1])
            return alike_in_control(for_control, launch, most)

        def run(blocks: Sequence[Dimensions]) -> tuple[MemoryMachine, NeedsData | None, BlockRecord]:
            machine, missing = execute(self.code, launch, blocks)
            insts = (lengths[0] @ executions(machine, len(self.code.stretches))).max(initial=0.0)
            if machine.estimated and insts < _FEW:  # data may lead anywhere
                with suppress(DseError):  # too many trips
                    machine, missing = execute(self.code, launch, blocks, exact=True)
            return machine, missing, record(self.code, machine, *self._how)

        ran, self.sample = sampled(
            launch.grid, launch.threads, control, run, lambda ran: cost_of_accesses(ran[-1]), prove
        )
        self.machine, self.missing, self.record = ran
        if self._feeds is None:
            return True
        before, self._feeds = self._feeds, joined(self._feeds, fed(self._whole, self.machine))
        return self._feeds == before

    def addresses_of(
        self, blocks: Sequence[Dimensions], warps: Sequence[int] | None, only: frozenset[int]
    ) -> Addresses:
        """Run the waves of these warps of 32 threads, in other blocks, for the addresses of `only` some
        instructions; no trips of loops are estimated.

        If addresses depend on the LDS, all are run: others may have stored what these load. All blocks at
        once may wait for each other as few do not, so they run for a few times as long at most.

        **Raises:** DseError as `execute`.
        """
        code = self._whole.needed_for(Purpose.ADDRESSES, only=only, feeds=self._feeds)
        waves = None if warps is None else sorted({WARP * warp // self.listing.wave_size for warp in warps})
        evaluated = [self.listing.instructions[number] for number in code.evaluated]
        spaces = {access.space for step in evaluated if (access := memory_access(step.opcode))}
        waves = None if "lds" in spaces else waves
        noted = partial(record, code, only_addresses=True)

        def first(firsts: Sequence[Dimensions], axis: int) -> tuple[BlockRecord, np.ndarray, Strides]:
            machine, (changes,) = followed(code, self.launch, firsts, [axis], waves, exact=True)
            of_rows = noted(machine, *self._how)
            strides = {stream.step: changes.apart[stream.step] for stream in of_rows.streams}
            if any(len(several) > 1 or None in several for several in strides.values()):
                raise Apart("addresses do not move evenly")
            return of_rows, changes.more, {step: stride for step, (stride,) in strides.items()}

        rows = Addresses.of_rows(self.record, self.sample.blocks, blocks, first)
        if rows is not None:
            return rows
        threads = self.launch.threads if waves is None else self.listing.wave_size * len(waves)
        executed, trace = int(times_of(self.machine).sum()), self.machine.trace
        share = sum(bool(code.stretches[index].actions) for index, _, _ in trace) / max(len(trace), 1)
        limit = most_pieces(executed, _SHORT, threads * len(blocks), share)
        machine, _ = execute(code, self.launch, blocks, step_limit=limit, waves=waves, exact=True)
        return Addresses.of(noted(machine, *self._how))

    @property
    def _atomics_return(self) -> bool:
        """Whether atomics on global memory return something."""
        steps = [(step, memory_access(step.opcode)) for step in self.listing.instructions]
        return any(
            accessed and accessed.kind == "atomic" and accessed.space != "lds" and returns(step, accessed)
            for step, accessed in steps
        )

    def decision(self, needs: NeedsData | None) -> tuple[UnknownDecision, ...]:
        """Return a decision that depends on what atomics return or, without them, on what is not computed."""
        if needs is None:
            return ()
        step, what = needs.step, OF_ATOMICS if self._atomics_return else "what is not computed"
        return (UnknownDecision(step.index, str(step), step.line, needs.what, (what,)),)


def counted(ran: ExecutedLaunch, asked: Resources) -> Characterisation:
    """Average the counts of a sample's blocks."""
    sample, noted = ran.sample, ran.record
    traffic, of_load = moved(noted, sample, ran.gpu, asked, ran.listing.scratch_bytes, ran.addresses_of)
    times = timing(ran.gpu, ran.turns, of_load)
    return average_block(
        noted,
        sample,
        noted.phase_counts,
        walks=walk(ran.code, ran.machine, noted, sample.typical, times, ran.turns),
        traffic=traffic,
        warp_size=noted.wave_size,
        unknown=ran.unknown,
        estimated={
            ran.code.stretches[header].steps[0].index: loop for header, loop in ran.machine.estimated.items()
        },
    )


def issue_slots(phase: PhaseCounts) -> float:
    """Count the issue slots of one pass of a phase of an average block.

    In each cycle a SIMD issues instructions of several kinds, each of another wave: the kind with most
    instructions, vector or scalar, sets its issue slots.

    **Source:** CDNA2 and RDNA2 instruction set guides, sections on the shader's organisation.
    """
    return max(sum(phase.insts.get(pipe, 0.0) for pipe in kinds) for kinds in (_VECTOR, _SCALAR))
