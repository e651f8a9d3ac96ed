"""Groups of asynchronous copies and products, told from instructions as they are printed."""

import pytest

from dse.source.nvidia.profile.async_groups import Role, role
from dse.source.nvidia.sass.listing import parse
from dse.source.nvidia.sass.program import program


def step(text: str):
    code = f"\t.target sm_90\n\t.section .text.toy,\n  /*0000*/ {text} ;\n  /*0010*/ EXIT ;"
    return program(parse(code, "toy.sass")[0]).steps[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("LDGSTS.E.BYPASS.128 [R2], [R4.64]", Role("copies", starts=True)),
        ("LDGDEPBAR", Role("copies", closes=True)),
        ("DEPBAR.LE SB0, 0x2", Role("copies", waits=True, left=2)),
        ("DEPBAR.LE SB0, 0x1, {4,3,1}", Role("copies", waits=True, left=1)),
        ("HGMMA.64x64x16.F32 R24, gdesc[UR4], R24", Role("products", starts=True)),
        ("HGMMA.64x64x16.F32 R24, gdesc[UR4], R24, gsb0", Role("products", starts=True, closes=True)),
        ("WARPGROUP.DEPBAR.LE gsb0, 0x1", Role("products", waits=True, left=1)),
        ("WARPGROUP.ARRIVE", None),
        ("LDG.E R2, [R4.64]", None),
    ],
)
def test_roles(text, expected):
    assert role(step(text)) == expected
