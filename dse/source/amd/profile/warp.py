"""The average wave of a launch as models take it."""

from dataclasses import replace

import numpy as np

from dse.source.nvidia.profile import to_kernel
from dse.source.nvidia.profile.characterise import Characterisation, PhaseCounts
from dse.source.nvidia.profile.warp_counts import WarpCounts

# Of the pipes, by names that all GPUs share: what the vector unit of a SIMD does, and what its scalar unit.
VECTOR = ("fp32", "fp64", "int32", "imul32", "sfu", "tensor")
SCALAR = ("uniform", "constant", "control", "barrier")


def warp_counts(counts: Characterisation) -> WarpCounts:
    """Average one launch over its waves.

    In each cycle a SIMD issues instructions of several kinds, each of another wave: what counts for its issue
    slots is the kind that has most, vector or scalar.

    **Source:** CDNA2 and RDNA2 instruction set guides, sections on the shader's organisation.
    """
    warps = to_kernel.warp_counts(counts)
    slots = np.array([_slots(phase) / counts.warps for phase in counts.phases])
    return replace(warps, phases=replace(warps.phases, issues=slots))


def _slots(phase: PhaseCounts) -> float:
    vector, scalar = (sum(phase.insts.get(pipe, 0.0) for pipe in kinds) for kinds in (VECTOR, SCALAR))
    return max(vector, scalar)
