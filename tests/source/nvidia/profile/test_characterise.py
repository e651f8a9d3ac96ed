"""What a launch does, against counts made by hand."""

import pytest
from support.sass_code import bound, characterise, listing_of

from dse.source.machine.launch import LaunchArguments
from dse.source.profile.characterise import Characterisation
from dse.source.profile.single_warp import SOURCES, Timing

TIMES = Timing(dict.fromkeys(SOURCES, 4.0) | {"global": 400.0}, {"fp32": 2.0})


def found(kernel: str, *arguments, grid=(4, 1, 1), block=(256, 1, 1), **options) -> Characterisation:
    return characterise(bound(kernel), LaunchArguments(grid, block, arguments), **options)


def test_vector_add():
    n = 100_000
    result = found("vector_add", None, None, None, n, grid=(391, 1, 1))
    assert result.fp32_ops == pytest.approx(n)
    assert result.blocks * result.total("global load", "bytes") == pytest.approx(8 * n)
    assert result.blocks * result.total("global store", "sectors") == pytest.approx(n / 8)
    assert result.spread == 0
    assert result.sampled < 20
    (phase,) = result.phases
    assert phase.new_sectors["load"] * result.blocks == pytest.approx(2 * n / 8)
    assert phase.active == pytest.approx(1.0, abs=0.01)
    assert sum(result.executed.values()) == pytest.approx(result.insts() * result.blocks)


def test_phases_between_barriers_are_rolled():
    n = 1024
    result = found("nbody", None, None, n, times=TIMES)
    barriers = sorted({phase.closed for phase in result.phases} - {-1})
    assert {(phase.opened, phase.closed): phase.passes for phase in result.phases} == {
        (-1, barriers[0]): 1,
        (barriers[0], barriers[1]): n / 256,
        (barriers[1], barriers[0]): n / 256 - 1,
        (barriers[1], -1): 1,
    }
    inner = next(phase for phase in result.phases if phase.opened == barriers[0])
    assert inner.accesses["shared load"].requests == 8 * 256
    # 3 differences, 2 multiply-adds and a multiply for the distance, one more multiply-add: 7 for each pair
    assert inner.fp32_ops == 256 * 256 * 7
    assert inner.walk is not None
    assert inner.walk.insts == pytest.approx(sum(inner.insts.values()) / 8)
    assert sum(phase.passes * phase.new_sectors["load"] for phase in result.phases) == n * 16 / 32


def test_unknown_decisions_are_listed():
    result = found("spmv", None, None, None, None, None, 1024)
    assert {unknown.what for unknown in result.unknown} >= {"branch"}
    branch = next(unknown for unknown in result.unknown if unknown.what == "branch")
    assert branch.depends_on == ("contents of argument 0",)
    assert branch.instruction.startswith("BRA")


@pytest.mark.parametrize(
    ("skipped", "matters"),
    [
        ("FADD R5, R5, R5", False),
        ("STL [R1], R5", False),
        ("STL [R8], R5", True),
        ("STS [R8], R5", True),
        ("STG.E [R6.64], R5", True),
        ("HMMA.16816.F32 R8, R12, R16, R8", True),
        ("BAR.SYNC 0x0", True),
        ("EXIT", True),
    ],
)
def test_a_decision_matters_if_work_depends_on_it(skipped, matters):
    code = ["LDG.E R4, [R2.64]", "ISETP.NE.AND P0, PT, R4, RZ, PT", "@P0 BRA 0x40", skipped, "EXIT"]
    listing = listing_of(*code)
    launch = LaunchArguments((1, 1, 1), (32, 1, 1), [None])
    (branch,) = [item for item in characterise(listing, launch).unknown if item.what == "branch"]
    assert branch.matters == matters


@pytest.mark.parametrize(
    ("compared", "body", "matters"),
    [
        ("ISETP.NE.AND P0, PT, R4, RZ, PT", "FADD R5, R5, R5", True),  # a long division
        ("ISETP.GE.U32.AND P0, PT, R4, 0x7f800000, PT", "FADD R5, R5, R5", False),  # bits of a fraction
        ("FSETP.GT.AND P0, PT, R4, RZ, PT", "FADD R5, R5, R5", False),
        ("FSETP.GT.AND P0, PT, R4, RZ, PT", "STG.E [R6.64], R5", True),
    ],
)
@pytest.mark.parametrize("behind", [False, True])
def test_a_function_counts_as_arithmetic_where_fractions_decide_on_it(compared, body, matters, behind):
    code = ["LDG.E R4, [R2.64]", compared, "@P0 BRA 0x60", "MOV R20, 0x50", "CALL.REL.NOINC 0x80"]
    code += ["BRA 0x70", "FADD R6, R6, R6", "EXIT", body, "RET.REL.NODEC R20 0x0"]
    if behind:  # the branch leads to the call
        code[3:7] = ["FADD R6, R6, R6", "BRA 0x70", "MOV R20, 0x70", "CALL.REL.NOINC 0x80"]
        code[2] = "@P0 BRA 0x50"
    found = characterise(listing_of(*code), LaunchArguments((1, 1, 1), (32, 1, 1), [None])).unknown
    branches = [item.matters for item in found if item.what == "branch"]
    assert branches == ([] if "0x7f800000" in compared else [matters])  # usual numbers decide on infinity


@pytest.mark.parametrize(
    ("decided", "ends"),
    [
        ("@!P0 BRA 0x80", True),
        ("@!P0 CALL.REL.NOINC 0x80", True),  # a jump that is written as a call
        ("@!P0 CALL.REL.NOINC 0x90", False),  # a function comes back
        ("@P0 CALL.REL.NOINC 0x0", True),  # a jump back to itself
        ("@P0 EXIT", True),
        ("@P0 BRA 0x70", False),  # passes over a part of the body
    ],
)
def test_a_decision_that_ends_a_loop(decided: str, ends: bool):
    code = ["LDG.E R4, [R2.64]", "FSETP.GT.AND P0, PT, R4, RZ, PT", "MOV R20, 0x60", "IADD3 R9, R9, 0x1, RZ"]
    code += ["ISETP.GE.AND P1, PT, R9, 0x3, PT", decided, "FADD R5, R5, R5", "@!P1 BRA 0x0", "EXIT"]
    listing = listing_of(*code, "FADD R5, R5, R5", "RET.REL.NODEC R20 0x0")
    found = characterise(listing, LaunchArguments((1, 1, 1), (32, 1, 1), [None])).unknown
    (branch,) = [item for item in found if item.what == "branch"]
    assert branch.matters == ends


def test_a_load_that_never_executes_takes_no_pipe():
    """Three such pad each asynchronous copy of compute capability 8.0."""
    launch = LaunchArguments((1, 1, 1), (32, 1, 1), [])
    counts = characterise(listing_of("@!PT LDS RZ, [RZ]", "LDS R4, [RZ]", "EXIT"), launch)
    assert (counts.insts("shared"), counts.insts("other"), counts.insts()) == (1, 1, 3)
