"""Groups of asynchronous copies and products, told from instructions as they are printed."""

import numpy as np
import pytest
from support.sass_code import program_of

from dse.source.nvidia.profile.async_groups import AsyncResult, Groups, Role, role


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


def results(*times: float) -> list[AsyncResult]:
    return [AsyncResult(time, np.array([time, 0.0])) for time in times]


def test_a_wait_is_for_all_groups_but_the_latest():
    copy, commit = Role("copies", starts=True), Role("copies", closes=True)
    groups = Groups()
    for result in results(400.0, 410.0, 420.0):
        groups.start(copy, result)
        groups.close(commit)
    awaited, in_flight = groups.wait(Role("copies", waits=True, left=1))
    assert awaited is not None
    assert (awaited.time, in_flight) == (410.0, 3)
    assert groups.wait(Role("copies", waits=True, left=1)) == (None, 1)
    assert groups.most_in_flight == 1
    groups.postpone(1000.0, np.array([3.0, 1.0]))
    awaited, _ = groups.wait(Role("copies", waits=True, left=0))
    assert awaited is not None
    assert awaited.time == 1420.0
    np.testing.assert_array_equal(awaited.path, [423.0, 1.0])


def test_a_group_of_no_copies_is_a_group():
    copy, commit = Role("copies", starts=True), Role("copies", closes=True)
    groups = Groups()
    groups.start(copy, results(400.0)[0])
    groups.close(commit)
    groups.close(commit)
    awaited, in_flight = groups.wait(Role("copies", waits=True, left=1))
    assert awaited is not None
    assert (awaited.time, in_flight) == (400.0, 2)
    groups.postpone(10.0, np.ones(2))
    awaited, _ = groups.wait(Role("copies", waits=True, left=0))
    assert awaited is not None
    assert awaited.time < 0


def test_mbarriers_are_waited_for_one_after_the_other():
    armed, load, wait = (
        Role("mbarrier", closes=True),
        Role("mbarrier", starts=True),
        Role("mbarrier", waits=True),
    )
    groups = Groups()
    for result in results(500.0, 600.0):
        groups.close(armed)  # of nothing at first
        groups.start(load, result)
    for time in (500.0, 600.0):
        awaited, _ = groups.wait(wait)
        assert awaited is not None
        assert awaited.time == time
    assert groups.wait(wait) == (None, 0)
