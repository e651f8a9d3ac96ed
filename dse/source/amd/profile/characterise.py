"""Counts what the average block of a launch does on an AMD GPU, phase by phase between its barriers."""

from collections.abc import Sequence

import numpy as np

from dse.source.amd.execute.code import Code, code_of
from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.execute.interpret import execute
from dse.source.amd.execute.state import NeedsData
from dse.source.amd.profile.pipes import Turns, turns
from dse.source.amd.profile.record import BlockRecord, executions, record
from dse.source.amd.profile.walk import timing, walk
from dse.source.amd.text import Listing
from dse.source.machine.alike import Boxes
from dse.source.machine.blocks import sampled
from dse.source.machine.launch import Dimensions, LaunchArguments
from dse.source.machine.recorded import cost_of_accesses
from dse.source.nvidia.caches.cache_model import Caches, Traffic, latency, misses
from dse.source.nvidia.profile.characterise import (
    Characterisation,
    PhaseCounts,
    Tally,
    access_kind,
    by_phase,
)
from dse.source.nvidia.source import resident_blocks
from dse.source.profile.single_warp import Walk
from dse.types import Gpu, Resources


class ExecutedLaunch:
    """One launch of which some blocks were run."""

    def __init__(
        self, listing: Listing, launch: LaunchArguments, shared_bytes: int, gpu: Gpu, joins: bool = False
    ) -> None:
        self.listing, self.gpu = listing, gpu
        self.code: Code = code_of(listing)
        self.turns: Turns = turns(listing)
        wide_rate = float(gpu.cpi.fp64) <= float(gpu.cpi.fp32)
        lengths = np.array([(len(stretch.steps), 0) for stretch in self.code.stretches]).ravel()

        steered: list[bool] = []

        def control(blocks: Sequence[Dimensions]) -> tuple[np.ndarray, np.ndarray, int, int]:
            machine, _ = execute(self.code, launch, blocks, shared_bytes)
            steered.append(machine.steered_by_block)
            held = {id(x): x.nbytes for access in machine.accesses for x in (access.base, access.lanes)}
            counts = executions(machine, len(self.code.stretches))
            return counts, lengths, len(machine.trace), sum(held.values())

        def prove(steps: int, most: int) -> Boxes | str:
            return "" if any(steered) else Boxes.alike(len(lengths))

        def run(blocks: Sequence[Dimensions]) -> tuple[MemoryMachine, NeedsData | None, BlockRecord]:
            machine, missing = execute(self.code, launch, blocks, shared_bytes)
            return machine, missing, record(self.code, machine, self.turns, wide_rate, joins)

        ran, self.sample = sampled(
            launch.grid, launch.threads, control, run, lambda ran: cost_of_accesses(ran[-1]), prove
        )
        self.machine, self.missing, self.record = ran


def counted(ran: ExecutedLaunch, asked: Resources) -> Characterisation:
    """Average what was counted in the blocks of a sample."""
    gpu, sample, noted = ran.gpu, ran.sample, ran.record
    resident = int(resident_blocks(gpu, asked))
    caches = Caches(
        float(gpu.l1_bytes),
        max(float(gpu.l2_bytes), float(gpu.memory_cache_bytes)),
        int(gpu.sm_count),
        max(resident, 1),
        ran.listing.scratch_bytes,
    )
    traffic = misses(noted, sample, caches)
    times = timing(gpu, ran.turns, latency(sum(traffic.values(), Traffic()), gpu))
    walks = walk(ran.code, ran.machine, noted, sample.typical, times, ran.turns)
    weights = np.array(sample.weights) / noted.launch.blocks
    counts = by_phase(noted.phases, noted.phase_counts)
    phases = tuple(
        _phase(noted, key, numbers @ weights, walks.get(key), traffic.get(key))
        for key, numbers in counts.items()
    )
    return Characterisation(
        kernel=ran.listing.name,
        arch=noted.program.arch,
        grid=noted.launch.grid,
        block=noted.launch.block,
        sampled=len(sample.blocks),
        phases=phases,
        executed={},
        spread=sample.spread,
        unseen=sample.unseen,
        doubtful=sample.doubtful,
        unknown=(),
        unskipped={},
        estimated={},
        warp_size=noted.wave_size,
    )


def _phase(
    noted: BlockRecord,
    key: tuple[int, int],
    counts: np.ndarray,
    path: Walk | None,
    traffic: Traffic | None,
) -> PhaseCounts:
    """Describe one pass of a phase; `counts` are of the average block over all its passes."""
    tally = Tally()
    for stretch in noted.program.blocks:
        waves, threads = counts[2 * stretch.index : 2 * stretch.index + 2].tolist()
        if not waves:
            continue
        for step in stretch.steps:
            tally.add(step.pipe, waves, threads)
            tally.fp32_ops += step.fp32_ops * threads
            if step.product is not None:
                tally.add_product(step.product, waves)
            if step.memory:
                row = noted.bound.memory_rows[step.index]
                requests, sectors, through, active = counts[row : row + 4]
                tally.accesses[access_kind(step)] += (requests, sectors, through, active * step.bytes)
    first = {"load": 0.0, "store": 0.0}  # not counted
    return tally.one_pass(key, float(counts[-1]), noted.wave_size, path, traffic, first)
