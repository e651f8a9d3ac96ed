"""Products of matrices by one instruction of a warp."""

from dataclasses import dataclass

UNIT_BYTES = (16 * 16 + 16 * 8) * 2  # operands of `mma_warp`: 16 x 16 by 16 x 8 halves


@dataclass(frozen=True)
class Mma:
    """The product of matrices of one warp's instruction."""

    kind: str  # one of dse.types.MMA
    multiply_adds: float
    from_registers: float  # in units of `mma_warp`, by bytes of A and B; 0 if B is in shared memory
    shared_bytes: float  # of A and B in shared memory
    blocks: int = 1  # that multiply together, each as much as this, for one instruction
