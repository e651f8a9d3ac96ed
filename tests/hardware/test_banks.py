"""Sectors, lines and bank conflicts of a warp, by their definitions in plain Python."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.hardware.banks import passes, passes_of_atomics
from dse.hardware.coalescing import sectors_and_lines

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


@settings(max_examples=25)
@given(warp=warps())
def test_sectors_and_lines(warp):
    addresses, mask, _ = warp
    active = addresses[mask].tolist()
    expected = [len({address // unit for address in active}) for unit in (32, 128)]
    assert [int(count.item()) for count in sectors_and_lines(addresses, mask)] == expected


def busiest(addresses: list[int], size: int) -> int:
    """Different words of the bank that is asked for most."""
    banks: dict[int, set[int]] = {}
    for address in addresses:
        for word in range(address // 4, address // 4 + max(size // 4, 1)):
            banks.setdefault(word % 32, set()).add(word)
    return max(map(len, banks.values()), default=0)


@settings(max_examples=25)
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
        expected += busiest(part, size)
    assert passes(addresses, mask, size).item() == expected
    assert passes(addresses, mask, np.array([[size]])).item() == expected


@given(warp=warps())
def test_atomics_take_turns(warp):
    addresses, mask, _ = warp
    banks = (addresses[mask] // 4 % 32).tolist()
    expected = max((banks.count(bank) for bank in banks), default=0)
    assert passes_of_atomics(addresses, mask).item() == expected
