"""Pipes of instructions, by the names that all GPUs share, and their cost for a wave alone.

Source: AMD's instruction set guides of CDNA2, CDNA3, RDNA2 and RDNA3; CLRadeonExtender, "GCN ISA Instruction
Timings", for turns of 4 cycles, branches, and vector instructions whose mask a scalar one waits for. Wide
accesses to LDS that are not aligned: LLVM's reviews D123524 and D123956 measured some 4 lanes a pass on
gfx900 and gfx1030, of 8 and of 12 bytes; on gfx90a it is one, by the convolution on MI250X, in which each
word that the 64 lanes of a wave load takes 31 cycles.
"""

from dataclasses import dataclass

from dse.errors import DseError
from dse.source.amd.execute.memory_names import MemoryAccess, memory_access
from dse.source.amd.execute.opcodes import opcode
from dse.source.amd.text import Instruction, Listing

_MEMORY = {"vmem": "global", "flat": "global", "scratch": "local", "lds": "shared", "smem": "constant"}
_PLAIN = {"salu": "uniform", "branch": "control", "wait": "control", "other": "control", "barrier": "barrier"}
_CROSSBAR = ("ds_bpermute", "ds_permute", "ds_swizzle")


@dataclass(frozen=True)
class InstructionKind:
    """Properties of an instruction, independent of the launch."""

    pipe: str  # of dse.source.nvidia.sass.opcodes.PIPES
    counts: bool = True  # whether it takes an issue slot: waits and hints take none
    access: MemoryAccess | None = None
    fp32_ops: int = 0


def kind_of(step: Instruction, wide_rate: bool) -> InstructionKind:
    """Return the kind of an instruction. With `wide_rate`, 64-bit shifts and sums have the full rate.

    **Raises:** DseError for an unknown opcode.
    """
    row = opcode(step.opcode)
    if row is None:
        access = memory_access(step.opcode)
        if access is not None:
            return InstructionKind(_MEMORY[access.space], access=access)
        if step.opcode.startswith(_CROSSBAR):
            return InstructionKind("shared")
        raise DseError(f"{step}: found an unknown opcode, expected one of dse/source/amd/execute/opcodes.py")
    if row.pipe in _PLAIN:
        return InstructionKind(_PLAIN[row.pipe], counts=row.pipe not in ("wait", "other"))
    operations = row.operations if row.kind == "fp32" else 0
    if step.second is not None:
        operations += kind_of(step.second, wide_rate).fp32_ops
    return InstructionKind(_vector_pipe(step.opcode, row.pipe, row.kind, wide_rate), fp32_ops=operations)


def _vector_pipe(name: str, pipe: str, kind: str, wide_rate: bool) -> str:
    if pipe == "matrix":
        return "tensor"
    if pipe == "trans":
        return "sfu"
    if "_f64" in name:
        return "fp64"
    if pipe == "valu64":
        multiplies = "mul" in name or "mad" in name
        return "imul32" if multiplies or not wide_rate else "int32"
    return "fp32" if kind in ("fp32", "fp16") else "int32"


@dataclass(frozen=True)
class Turns:
    """The cycles of a SIMD's turns."""

    turn: float  # from one instruction of a wave to its next
    branch: float  # until the instruction after a branch
    mask: float  # from a vector instruction to a scalar one that reads its mask
    line: int  # bytes of a line of the vector cache
    unaligned: int  # lanes per pass of the LDS, of wide accesses not aligned to their width
    quads: bool  # whether the vector cache processes the addresses of four lanes at a time


def turns(listing: Listing) -> Turns:
    """Return the turns of a target: GCN and CDNA give each SIMD a turn every 4 cycles, RDNA every cycle."""
    if listing.target.startswith("gfx9") or len(listing.target) == 6:
        since_cdna2 = listing.target.startswith(("gfx90a", "gfx94", "gfx95"))
        since_cdna3 = listing.target.startswith(("gfx94", "gfx95"))
        return Turns(4.0, 16.0, 16.0, 128 if since_cdna3 else 64, 1 if since_cdna2 else 4, True)
    return Turns(1.0, 8.0, 8.0, 128, 4, False)
