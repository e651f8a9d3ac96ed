from itertools import product
from typing import Any

import numpy as np
import pytest

from dse.hardware import gpus
from dse.source.contract import Failure
from dse.source.estimate.active_sampling import choose
from dse.source.estimate.estimate import estimate
from dse.source.estimate.features import KnownFacts, known
from dse.source.estimate.partition import variants
from dse.source.launches import Configuration
from dse.source.nvidia.compile.nvrtc import CudaSource
from dse.source.profile.characterise import AccessCounts, Characterisation, PhaseCounts
from dse.source.profiles import KernelProfile
from dse.source.warps import column_names, row

LIMITS = gpus.load("a100").gpu.limits
SPACE = list(product([16, 32, 64, 128], [1, 2, 3, 4], [0, 1], [0, 1]))  # block, tile, staged, unrolled
NAMES = ("block", "tile", "staged", "unrolled")


def phase(*kinds: str) -> PhaseCounts:
    access = AccessCounts(1.0, 0.0, 1.0, 4.0)
    return PhaseCounts(
        opened=-1, closed=-1, passes=1.0, insts={}, active=1.0, fp32_ops=0.0, fp32_ops_unsure=0.0,
        accesses=dict.fromkeys(kinds, access), new_sectors={}, traffic=None, walk=None,
    )  # fmt: skip


def result(block: int, tile: int, staged: int, unrolled: int) -> KernelProfile:
    """A kernel with two phases if staged, else with one that does other things; large tiles spill."""
    spilled = ["local store"] if tile == 4 and not unrolled else []
    phases = (phase("global load", *spilled), phase("shared load")) if staged else (phase("global load"),)
    counts = Characterisation(
        kernel="k", arch=80, grid=(8, 1, 1), block=(block, 1, 1), sampled=1, phases=phases,
        executed={}, spread=0.0, unknown=(), estimated={},
    )  # fmt: skip
    columns = dict.fromkeys(column_names(len(phases)), 0.0)
    columns["phases.0.work.fp32"] = 10.0 * tile**2 if staged else 900.0 / tile
    if staged:
        columns |= {"phases.1.insts": 5.0 * tile * block, "phases.1.work.shared": 1.0}
    warp = row(columns, len(phases))
    return KernelProfile(20 + tile if staged else 60 - 4 * tile, 0, 0, 0, "", counts, warp)


@pytest.fixture(scope="module")
def before() -> KnownFacts:
    columns: dict[str, Any] = dict(zip(NAMES, np.array(SPACE).T, strict=True))
    wanted = [
        Configuration(tuple(zip(NAMES, item, strict=True)), (8, 1, 1), (item[0], 1, 1), ()) for item in SPACE
    ]
    return known(CudaSource("a.cu", "", "", (), (), ""), columns, wanted, {"wide": columns["block"] > 32})


def results(*places: int) -> dict[int, KernelProfile | Failure]:
    return {place: result(*SPACE[place]) for place in places}


def test_flags_are_features(before: KnownFacts) -> None:
    assert len(before.flags) == 3  # staged, unrolled, wide
    assert before.features.shape[1] == before.code.shape[1] + 1


def test_what_has_other_phases_is_apart(before: KnownFacts) -> None:
    """By the flag that decides on them; what is spilled decides on nothing."""
    actual = results(*range(0, 64, 2), 1, 3, 5)
    single, other = variants(before, actual)
    staged = np.array(SPACE)[:, 2]
    assert not staged[single.indices].any()
    assert staged[other.indices].all()
    for part in (single, other):
        assert len(part.known.threads) == len(part.indices)
        assert part.results == {
            number: actual[place] for number, place in enumerate(part.indices.tolist()) if place in actual
        }
        assert "staged" in part.known.names
        assert part.known.code.shape[1] == before.code.shape[1] - 1  # it does not vary any more


def test_few_are_not_taken_apart(before: KnownFacts) -> None:
    assert len(variants(before, results(*range(12)))) == 1
    assert len(variants(before, {0: Failure("compile error", "")})) == 1


def test_names_together_may_tell(before: KnownFacts) -> None:
    """Where none does by itself."""
    actual = {
        place: result(block, tile, staged * unrolled, 1)
        for place, (block, tile, staged, unrolled) in enumerate(SPACE)
    }
    parts = variants(before, actual)
    for part in parts:
        counted = [result.counts for result in part.results.values() if isinstance(result, KernelProfile)]
        assert len(counted) == len(part.results)
        assert len({len(counts.phases) for counts in counted}) == 1


def test_each_is_chosen_from_and_estimated_by_itself(before: KnownFacts) -> None:
    actual: dict[int, KernelProfile | Failure] = {}
    while batch := choose(before, 36, actual):
        actual |= results(*batch)
    assert len(actual) == 36
    guess = estimate(before, actual, LIMITS)
    for place, configuration in enumerate(SPACE):
        there = result(*configuration)
        estimated, known_numbers = guess.warps[place], there.numbers
        assert estimated[: len(known_numbers)] == pytest.approx(known_numbers, rel=0.05)
        assert not estimated[len(known_numbers) :].any()
        assert guess.resources["registers"][place] == pytest.approx(there.registers, abs=1)
        assert guess.resources["threads"][place] == configuration[0]
    assert sorted(guess.compiled) == sorted(actual)
    errors = guess.errors()
    assert len(errors["phases.1.insts"]) == len(errors["registers"]) == 36
