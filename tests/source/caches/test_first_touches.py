"""First touches of sectors, against a plain count."""

from collections import Counter
from dataclasses import replace

import numpy as np

from dse.source.caches.first_touches import first_touches


def test_equals_a_plain_count(launched, kernel: str):
    machine, _ = launched(kernel)
    seen: set[tuple[int, int]] = set()
    expected: Counter[tuple[int, int]] = Counter()
    for stream in machine.streams:
        base, mask = (np.broadcast_to(item, machine.shape) for item in (stream.base, stream.lanes.mask))
        for offset in stream.offsets().tolist():
            for block in range(machine.shape[0]):
                for sector in set(((base[block][mask[block]] + offset) // 32).tolist()) - {
                    sector for where, sector in seen if where == block
                }:
                    seen.add((block, sector))
                    expected[int(stream.phase[block]), block] += 1
    actual = first_touches(machine, machine.streams)
    assert {place: count for place, count in np.ndenumerate(actual) if count} == expected
    assert actual.sum() > 0


def test_nothing_is_touched_by_no_accesses(launched):
    machine, _ = launched("vector_add")
    assert not first_touches(machine, []).any()


def test_wild_addresses_change_no_block(launched):
    machine, _ = launched("vector_add")
    wild = [replace(stream, base=stream.base + 2**61) for stream in machine.streams]
    np.testing.assert_array_equal(first_touches(machine, wild), first_touches(machine, machine.streams))
