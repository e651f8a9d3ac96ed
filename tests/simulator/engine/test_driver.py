"""Cases come back the same from any number of threads, and from all of them at once."""

from dataclasses import replace

import numpy as np
import pytest
from oracle import EVERY, Oracle, random_case

from dse.simulator import Case, simulate
from dse.simulator.engine import driver


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """Of every loop: plain, all that there is, real numbers, and dataflow order."""
    rng = np.random.default_rng(12)
    made = [random_case(rng, words, grid) for _ in range(15) for words, grid in (("", 64), (EVERY, None))]
    return [replace(case, order="dataflow") if n % 5 == 0 else case for n, case in enumerate(made)]


@pytest.mark.parametrize("count", [2, 16])
def test_threads_change_nothing(cases: list[Case], monkeypatch: pytest.MonkeyPatch, count: int):
    monkeypatch.setattr(driver, "processors", lambda: 1)
    alone = simulate(cases, critical=True)
    monkeypatch.setattr(driver, "processors", lambda: count)
    monkeypatch.setattr(driver, "WORTH_A_PART", 1)
    together = simulate(cases, critical=True)
    np.testing.assert_array_equal(together.makespan, alone.makespan)
    assert together.critical is not None
    assert alone.critical is not None
    for path, other in zip(together.critical, alone.critical, strict=True):
        np.testing.assert_array_equal(
            np.concatenate(path.latency_cycles), np.concatenate(other.latency_cycles)
        )
    np.testing.assert_array_equal(simulate(cases).makespan, alone.makespan)


def test_any_number_of_warps():
    # Several vectors of warps, of which the last one is not full, with every scheduler.
    rng = np.random.default_rng(3)
    cases = [
        replace(random_case(rng, "valve cap", grid), warps=warps, slots=1, groups=1, scheduler=scheduler)
        for grid in (64, None)
        for warps, scheduler in zip((15, 16, 17, 33, 47, 50), ("rr", "gto", "oldest") * 2, strict=True)
    ]
    np.testing.assert_array_equal(simulate(cases).makespan, [Oracle(case).makespan for case in cases])
    widest = replace(cases[0], warps=1_024)
    assert simulate([widest]).makespan[0] == simulate([widest], critical=True).makespan[0]
