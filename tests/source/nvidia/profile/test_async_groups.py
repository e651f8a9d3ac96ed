"""Groups of asynchronous copies and products, told from instructions as they are printed."""

import pytest
from support.sass_code import program_of

from dse.source.nvidia.profile.async_groups import Role, role


def step(text: str):
    return program_of(text, "EXIT", arch=90).steps[0]


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
