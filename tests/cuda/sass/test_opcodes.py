"""What instructions write, and how wide."""

from pathlib import Path

import pytest

from dse.cuda.sass.listing import parse
from dse.cuda.sass.opcodes import PIPE, PIPES, data_bytes, destinations, widths
from dse.cuda.sass.operands import operand

LISTINGS = sorted((Path(__file__).parents[1] / "listings").glob("*.sass"))


def test_each_opcode_has_one_pipe():
    assert set(PIPE.values()) == set(PIPES)


@pytest.mark.parametrize("path", LISTINGS, ids=lambda path: path.stem)
def test_all_opcodes_of_the_listings_are_known(path):
    opcodes = {
        i.opcode.split(".")[0] for listing in parse(path.read_text(), path.name) for i in listing.instructions
    }
    assert opcodes <= set(PIPE)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("IADD3 R1 R2 R3 RZ", 1),
        ("IADD3 R1 P0 PT R2 R3 RZ", 3),
        ("IADD3.X R2 P0 PT R3 R4 RZ P1 !PT", 3),
        ("LOP3.LUT P0 R1 R2 R3 RZ 0xc0 !PT", 2),
        ("ISETP.GE.AND P0 PT R1 R2 PT", 2),
        ("FCHK P0 R1 R2", 1),
        ("VOTE.ANY R0 PT P1", 2),
        ("VOTE.ALL P0 P1", 1),
        ("SEL R0 R1 R2 P0", 1),
        ("SHFL.IDX PT R0 R1 R2 0x1f", 2),
        ("STG.E [R2.64] R1", 0),
        ("ATOMG.E.ADD PT R3 [R2.64] R7", 2),
        ("EXIT", 0),
        ("BMOV.32 B6 R16", 1),
        ("R2P PR R0 0x3", 0),
    ],
)
def test_destinations(text, count):
    opcode, *operands = text.split()
    assert destinations(opcode.split(".")[0], tuple(map(operand, operands))) == count


@pytest.mark.parametrize(
    ("text", "sources", "expected"),
    [
        ("LDG.E.128", 1, 4),
        ("IMAD.WIDE", 3, 2),
        ("IMAD", 3, 1),
        ("DADD", 2, 2),
        ("CS2R", 1, 2),
        ("CS2R.32", 1, 1),
        ("I2F.F64.S64", 1, 2),
        ("I2F.U64.RP", 1, 1),
        ("F2I.U64.TRUNC", 1, 2),
        ("F2F.F32.F64", 1, 1),
        ("MOV.64", 1, 2),
        ("LDSM.16.M88.4", 1, 4),
    ],
)
def test_width_of_the_destination(text, sources, expected):
    opcode, *modifiers = text.split(".")
    assert widths(opcode, tuple(modifiers), sources)[0] == expected


def test_bytes_of_an_access():
    assert data_bytes("LDG", ("E", "U8")) == 1
    assert data_bytes("STS", ("128",)) == 16
    assert data_bytes("LDS", ("U", "64")) == 8
