"""The average wave of a launch as models take it."""

import numpy as np
from jaxtyping import Float

from dse.source.nvidia.profile import average_warp
from dse.source.nvidia.profile.characterise import Characterisation, PhaseCounts

# Of the pipes, by names that all GPUs share: those of the vector unit of a SIMD, and of its scalar unit.
VECTOR = ("fp32", "fp64", "int32", "imul32", "sfu", "tensor")
SCALAR = ("uniform", "constant", "control", "barrier")


def warp_counts(counts: Characterisation) -> Float[np.ndarray, " numbers"]:
    """Average one launch over its waves.

    In each cycle a SIMD issues instructions of several kinds, each of another wave: the kind with most
    instructions, vector or scalar, sets its issue slots.

    **Source:** CDNA2 and RDNA2 instruction set guides, sections on the shader's organisation.
    """
    return average_warp.warp_counts(counts, _slots)


def _slots(phase: PhaseCounts) -> float:
    vector, scalar = (sum(phase.insts.get(pipe, 0.0) for pipe in kinds) for kinds in (VECTOR, SCALAR))
    return max(vector, scalar)
