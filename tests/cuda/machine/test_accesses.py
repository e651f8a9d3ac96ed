"""Sectors, lines and bank conflicts of a warp, by their definitions in plain Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dse.cuda.machine.accesses import atomic_wavefronts, lines, sectors, wavefronts

SIZES = st.sampled_from([1, 2, 4, 8, 16])


@st.composite
def warps(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """(addresses, mask, bytes): even strides, all the same, or anything."""
    size = draw(SIZES)
    start, stride = draw(st.integers(0, 1000)), draw(st.integers(-40, 40))
    places = draw(
        st.one_of(
            st.just([abs(start + 2000 + stride * lane) for lane in range(32)]),
            st.just([start] * 32),
            st.just([start + 3 * (lane // 2) for lane in range(32)]),
            st.just([start + lane % 2 + 5 * (lane // 4) for lane in range(32)]),
            st.lists(st.integers(0, 300), min_size=32, max_size=32),
        )
    )
    mask = draw(st.one_of(st.just([True] * 32), st.lists(st.booleans(), min_size=32, max_size=32)))
    return np.array([[places]]) * size, np.array([[mask]]), size


@given(warp=warps())
def test_sectors_and_lines(warp):
    addresses, mask, size = warp
    active = addresses[mask].tolist()
    values, first = sectors(addresses, mask, size)
    assert sorted(values[first].tolist()) == sorted({address // 32 for address in active})
    assert lines(values, first).item() == len({address // 128 for address in active})


def passes(addresses: list[int], size: int) -> int:
    banks: dict[int, set[int]] = {}
    for address in addresses:
        for word in range(address // 4, address // 4 + max(size // 4, 1)):
            banks.setdefault(word % 32, set()).add(word)
    return max(map(len, banks.values()), default=0)


@given(warp=warps())
def test_passes_through_the_banks(warp):
    addresses, mask, size = warp
    together = {8: 16, 16: 8}.get(size, 32)  # lanes that are served at a time
    asks = {lane: int(addresses[0, 0, lane]) for lane in range(32) if mask[0, 0, lane]}
    if together < 32 and any(
        all(asks.get(lane ^ apart, address) == address for lane, address in asks.items()) for apart in (1, 2)
    ):
        together *= 2
    expected = 0
    for start in range(0, 32, together):
        part = [int(addresses[0, 0, lane]) for lane in range(start, start + together) if mask[0, 0, lane]]
        expected += passes(part, size)
    assert wavefronts(addresses, mask, size).item() == expected


def test_known_patterns():
    lane, everyone = np.arange(32)[None, None], np.ones((1, 1, 32), bool)
    for stride, ways in ((1, 1), (2, 2), (3, 1), (4, 4), (16, 16), (32, 32), (33, 1)):
        assert wavefronts(4 * stride * lane, everyone, 4).item() == ways
    assert wavefronts(0 * lane, everyone, 4).item() == 1
    assert wavefronts(8 * lane, everyone, 8).item() == 2
    assert wavefronts(16 * lane, everyone, 16).item() == 4


@given(warp=warps())
def test_atomics_take_turns(warp):
    addresses, mask, _ = warp
    banks = (addresses[mask] // 4 % 32).tolist()
    assert atomic_wavefronts(addresses, mask).item() == max((banks.count(bank) for bank in banks), default=0)
