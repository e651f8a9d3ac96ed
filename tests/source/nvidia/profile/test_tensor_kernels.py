"""Kernels on tensor cores as Triton compiles them: products and copies, against counts made by hand.

The listings are of Triton 3.9, of C = A B with blocks of 64 x 32 x 32 (sm_80: pointers and masks), of
64 x 32 x 64 (sm_90) and 128 x 32 x 64 (sm_100: boxes of tensors); operands of half precision, 4 warps.
"""

from dataclasses import replace

import numpy as np
import pytest
from support.sass_code import bound as stored_program
from support.sass_code import characterise, program_of

from dse.errors import DseError
from dse.source.machine.blocks import representative
from dse.source.machine.launch import OF_LAUNCH, LaunchArguments, TensorMap
from dse.source.nvidia.execute.interpret import bind_program, run
from dse.source.nvidia.execute.loop_skipping import LoopPolicy
from dse.source.nvidia.machine.state import BoundProgram
from dse.source.nvidia.profile.characterise import summary
from dse.source.profile.average_warp import warp_counts
from dse.source.profile.characterise import Characterisation
from dse.source.warps import to_kernel

WARPS = 4
M, N = 256, 128


def bound(name: str) -> BoundProgram:
    return stored_program("matmul" if name == "sm_80" else "matmul_tma", f"triton_{name}")


def pointers(k: int) -> LaunchArguments:
    """C = A B by pointers, in blocks of 64 x 32."""
    arguments = (None, None, None, M, N, k, k, N, N)
    return LaunchArguments((M // 64 * N // 32, 1, 1), (32 * WARPS, 1, 1), arguments)


def tensor(shape: tuple[int, int], box: tuple[int, int]) -> tuple:
    """A descriptor as Triton passes it: the map, then shape and strides."""
    return TensorMap(2, shape, (shape[1], 1), box), *shape, np.int64(shape[1]), np.int64(1)


def boxes(block_m: int, k: int, m: int = M) -> LaunchArguments:
    """C = A B by boxes of tensors, in blocks of `block_m` x 32 and 64 along K."""
    a, b, c = tensor((m, k), (block_m, 64)), tensor((k, N), (64, 32)), tensor((m, N), (block_m, 32))
    grid = (-(-m // block_m) * N // 32, 1, 1)
    return LaunchArguments(grid, (32 * WARPS, 1, 1), (*a, *b, *c, m, N, k))


LAUNCHES = {"sm_80": pointers(512), "sm_90": boxes(64, 512), "sm_100": boxes(128, 512)}


def work(counts: Characterisation) -> dict[str, float]:
    return vars(to_kernel(warp_counts(counts)).work)


@pytest.mark.parametrize("name", LAUNCHES)
def test_multiply_adds_are_those_of_the_product(name):
    launch = LAUNCHES[name]
    counts = characterise(bound(name), launch)
    assert counts.unknown == ()
    kernel, of_warp = to_kernel(warp_counts(counts)), work(counts)
    assert of_warp["mma_fp16"] * WARPS * launch.blocks == M * N * 512
    from_registers = M * N * 512 / 2048 / WARPS / launch.blocks
    assert of_warp["mma_warp"] == (from_registers if name == "sm_80" else 0)
    slots = sum(float(phase.insts * phase.passes) for phase in kernel.phases)
    reading = sum(phase.reading * phase.passes for phase in counts.phases) / WARPS
    assert kernel.insts == pytest.approx(slots - reading)


def test_operands_in_shared_memory_pass_its_banks():
    """64 x 32 x 16: A takes 2048 bytes of it and B 1024, for each of 32 products along K."""
    counts = characterise(bound("sm_90"), LAUNCHES["sm_90"])
    (tensor_passes,) = {sum(phase.passes * phase.tensor.get("shared", 0) for phase in counts.phases)}
    assert tensor_passes == (2048 + 1024) / 128 * 512 / 16


def test_what_lies_outside_a_tensor_is_not_moved():
    m = 80  # a block of 64 rows and one of 16
    counts = characterise(bound("sm_90"), boxes(64, 512, m))
    assert counts.total("global load", "bytes") * counts.blocks == (m + 2 * 32) * 512 * 2 * N // 32
    assert counts.total("global store", "bytes") * counts.blocks == m * N * 2
    assert work(counts)["mma_fp16"] * WARPS * counts.blocks == 128 * N * 512


@pytest.mark.quick("sm_80", "sm_90")
@pytest.mark.parametrize("name", LAUNCHES)
def test_loops_whose_stages_take_turns_are_skipped_exactly(name):
    k = 2048 + 32 * 3
    launch = pointers(k) if name == "sm_80" else boxes(64 if name == "sm_90" else 128, k)
    sample = representative(launch.grid)
    skipped, full = (
        run(bound(name), launch, sample.blocks, loops=policy) for policy in (LoopPolicy.SKIP, LoopPolicy.RUN)
    )
    single, other = summary(skipped, sample), summary(full, sample)
    assert single == other
    if name == "sm_80":
        assert len(skipped.trace) < len(full.trace) / 2


def test_a_descriptor_must_be_stated():
    launch = boxes(64, 512)
    none = replace(launch, arguments=(bytes(128), *launch.arguments[1:]), offsets=_offsets())
    with pytest.raises(DseError, match=r"UTMALDG\.2D.*found a tensor map not stated, .*expected an argument"):
        run(bound("sm_90"), none, [(0, 0, 0)])


def _offsets() -> list[int]:
    of_tensor = (0, 0x80, 0x84, 0x88, 0x90)
    return [0x240 + 0xC0 * n + offset for n in range(3) for offset in of_tensor] + [0x458, 0x45C, 0x460]


def test_nothing_depends_on_the_traps_for_misuse_of_tensor_memory():
    steps = bound("sm_100").program.steps
    assert any(step.opcode == "BPT" for step in steps)
    assert not any(step.needed for step in steps if step.pipe == "shared")


@pytest.mark.parametrize(
    ("instruction", "reads", "writes"),
    [
        ("UBLKCP.S.G [UR8], [UR4]", "global load", "shared store"),
        ("UBLKCP.G.S [UR4], [UR8]", "shared load", "global store"),
        ("UBLKRED.G.S.ADD.F32.RN [UR4], [UR8]", "shared load", "global store"),
        ("UBLKCP.S.G.MULTICAST [UR8], [UR4]", "global load", "shared store"),
        ("UBLKCP.S.S [UR8], [UR4]", "shared load", "shared store"),
    ],
)
def test_bulk_copies_move_as_many_bytes_as_a_register_has(instruction: str, reads: str, writes: str):
    """Each block copies 4,096 bytes three times; 16 bytes are the unit; with the blocks that receive them."""
    size = 0x30100 if "MULTICAST" in instruction else 0x100
    code = program_of(
        "S2UR UR6, SR_CTAID.X; UIMAD UR4, UR6, 0x3000, URZ; ULDC.64 UR10, c[0x0][0x210]",
        f"UIADD3 UR4, UP0, UR4, UR10, URZ; UIADD3.X UR5, URZ, UR11, URZ, UP0, !UPT; UMOV UR7, {size:#x}",
        f"UMOV UR8, 0x400; UMOV UR9, URZ; UMOV UR12, URZ; {instruction}, UR7; UIADD3 UR4, UR4, 0x1000, URZ",
        "UIADD3 UR12, UR12, 0x1, URZ; UISETP.NE.AND UP1, UPT, UR12, 0x3, UPT; @UP1 BRA 0x90; EXIT",
        arch=90,
    )
    launch = LaunchArguments((8, 1, 1), (32, 1, 1), (None,))
    machine = run(bind_program(code), launch, [(n, 0, 0) for n in range(8)])
    counts = summary(machine, representative((8, 1, 1), 6))
    moved = {kind: sum(x.accesses[kind].bytes for x in counts.phases) for kind in (reads, writes)}
    assert moved == {reads: 3 * 4096, writes: (6 if "MULTICAST" in instruction else 3) * 4096}
    way = "load" if "global" in reads else "store"
    new = sum(phase.new_sectors[way] for phase in counts.phases)
    assert new == (3 * 4096 / 32 if "global" in reads + writes else 0)


@pytest.mark.parametrize("grid", [(6, 4, 1), (2**15, 4, 1)])
def test_blocks_know_their_number_in_the_cluster(grid: tuple[int, int, int]):
    """Of four blocks the first issues a product for two of them, which ends all waits; two others store."""
    product = "UTCHMMA.2CTA gdesc[UR10], gdesc[UR12], tmem[UR14], tmem[UR6], idesc[UR7]"
    code = program_of(
        "S2R R2, SR_CgaCtaId; ISETP.GE.AND P0, PT, R2, 0x2, PT; MOV R3, RZ; @P0 STG.E [R2.64], R0",
        f"ISETP.NE.AND P1, PT, R2, RZ, PT; @P1 BRA 0x90; UMOV UR7, 0x10210010; {product}; UTCBAR [UR4], URZ",
        "SYNCS.PHASECHK.TRANS64.TRYWAIT P2, [UR4], R0; @!P2 BRA 0x90; EXIT",
        arch=100,
    )
    launch = LaunchArguments(grid, (32, 1, 1), cluster=(2, 2, 1))
    ranks = run(bind_program(code), launch, [(4, 2, 0), (5, 2, 0), (4, 3, 0), (5, 3, 0)]).r[2]
    assert ranks.ravel().tolist() == [0, 1, 2, 3]
    counts = characterise(bind_program(code), launch)
    assert counts.total("global store", "requests") == 1 / 2
    assert work(counts)["mma_fp16"] == 256 * 128 * 16 / 4
    meets = bind_program(program_of("UCGABAR_ARV; UCGABAR_WAIT; EXIT", arch=100))
    for alone in (launch, replace(launch, cluster=(1, 1, 1))):
        names = {name for decision in characterise(meets, alone).unknown for name in decision.depends_on}
        assert names == ({OF_LAUNCH} if alone is not launch else set())
