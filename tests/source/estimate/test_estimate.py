from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from dse.hardware import gpus, occupancy
from dse.source.contract import Failure
from dse.source.estimate.active_sampling import choose
from dse.source.estimate.bank_layout import conflicts
from dse.source.estimate.estimate import Estimate, estimate
from dse.source.estimate.features import KnownFacts, known
from dse.source.estimate.regression import fitted
from dse.source.launches import Configuration
from dse.source.nvidia.compile.nvrtc import CudaSource
from dse.source.profile.characterise import AccessCounts, Characterisation, PhaseCounts
from dse.source.profiles import KernelProfile
from dse.source.warps import NOTHING, column_names, row, stacked
from dse.types import Resources

LIMITS = gpus.load("a100").gpu.limits
NAMES = column_names(1)
SOURCE = CudaSource("a.cu", "constexpr int pitch = 2 * X + 1;\n__shared__ float a[Y][pitch];", "", (), (), "")
SPACE = [*product([8, 16, 32, 64], [1, 2, 4, 8], [1, 2, 3, 4, 6], [0, 1])]


def passes(x: int, y: int) -> float:
    """Of a warp's load of word (2 X + 1) y + x, counted one by one."""
    total, warps = 0, -(-x * y // 32)
    for warp in range(warps):
        words = {(2 * x + 1) * (t // x) + t % x for t in range(32 * warp, min(32 * warp + 32, x * y))}
        banks = [word % 32 for word in words]
        total += max(banks.count(bank) for bank in set(banks))
    return total / warps


def warp_of(columns: dict[str, float], phases: int = 1) -> np.ndarray:
    """A warp that does nothing but what these columns say."""
    every = dict.fromkeys(column_names(phases), 0.0) | {"ilp": 1.0, "mlp": 1.0}
    assert set(columns) <= set(every)
    return row(every | columns, phases)


def result(x: int, y: int, tile: int, flag: int) -> KernelProfile | Failure:
    """A made-up kernel: registers jump, some do not compile, some numbers are products, some only smooth."""
    if tile == 6 and y == 8:
        return Failure("compile error", "too much")
    registers = 255 if tile >= 4 and y >= 4 else 24 + 4 * tile + 2 * flag
    warps = -(-x * y // 32)
    loads, through = 10.0 * tile, 10.0 * tile * passes(x, y)
    access = AccessCounts(loads * warps, 0.0, through * warps, loads * 4 * min(32 * warps, x * y))
    phase = PhaseCounts(
        opened=-1, closed=-1, passes=2.0, insts={}, active=1.0, fp32_ops=0.0, fp32_ops_unsure=0.0,
        accesses={"shared load": access}, new_sectors={}, traffic=None, walk=None,
    )  # fmt: skip
    counts = Characterisation(
        kernel="k", arch=80, grid=(64 // tile, 3, 1), block=(x, y, 1), sampled=1, phases=(phase,),
        executed={}, spread=0.0, unknown=(), estimated={},
    )  # fmt: skip
    warp = warp_of(
        {
            "phases.0.passes": 2.0,
            "phases.0.insts": 50.0 * tile * float(np.log2(2 * x)),
            "phases.0.memory_insts": loads,
            "phases.0.work.shared": through,
            "phases.0.work.fp32": 9.0 * tile * x,
            "work.fp32": 18.0 * tile * x,
            "work.shared": 2 * through,
            "other_insts": 7.0,
        }
    )
    return KernelProfile(registers, 4 * y * (2 * x + 1), 0, 0, "", counts, warp)


@pytest.fixture(scope="module")
def before() -> KnownFacts:
    names = ["X", "Y", "TILE", "FLAG"]
    columns = dict(zip(names, np.array(SPACE).T, strict=True))
    wanted = [
        Configuration((("X", x), ("Y", y), ("TILE", tile), ("FLAG", flag)), (64 // tile, 3, 1), (x, y, 1), ())
        for x, y, tile, flag in SPACE
    ]
    return known(SOURCE, columns, wanted)


@pytest.fixture(scope="module")
def chosen(before: KnownFacts) -> dict[int, KernelProfile | Failure]:
    actual: dict[int, KernelProfile | Failure] = {}
    while batch := choose(before, 40, actual):
        assert not set(batch) & set(actual)
        actual |= {place: result(*SPACE[place]) for place in batch}
    return actual


@pytest.fixture(scope="module")
def guess(before: KnownFacts, chosen: dict[int, KernelProfile | Failure]) -> Estimate:
    return estimate(before, chosen, LIMITS)


def test_as_many_are_chosen_as_asked_for(before: KnownFacts, chosen: dict[int, KernelProfile | Failure]):
    assert len(chosen) == 40
    assert choose(before, 40, chosen) == []
    assert len(choose(before, 10_000, {})) == len(SPACE) / 2


def test_compiled_ones_stay_as_they_are(guess: Estimate, chosen: dict[int, KernelProfile | Failure]) -> None:
    for place, actual in chosen.items():
        assert guess.fails[place] == isinstance(actual, Failure)
        warp = actual.numbers if isinstance(actual, KernelProfile) else stacked([NOTHING, guess.warps])[0]
        np.testing.assert_array_equal(guess.warps[place], warp)
        if isinstance(actual, KernelProfile):
            assert guess.resources["registers"][place] == actual.registers


def test_what_follows_exactly_is_exact(guess: Estimate) -> None:
    assert guess.exact_patterns == {"phases.0.shared load"}
    for place, configuration in enumerate(SPACE):
        actual = result(*configuration)
        if isinstance(actual, Failure):
            continue
        assert guess.resources["shared_bytes"][place] == actual.shared_bytes
        if not guess.fails[place]:
            work = [n for n, name in enumerate(NAMES) if name.removeprefix("phases.0.").startswith("work.")]
            assert guess.warps[place, work] == pytest.approx(actual.numbers[work], rel=2e-3)
            others = NAMES.index("other_insts")
            assert guess.warps[place, others] == actual.numbers[others]


def test_the_border_of_registers_and_of_failures_is_found(guess: Estimate) -> None:
    results = [result(*item) for item in SPACE]
    fails = np.array([isinstance(item, Failure) for item in results])
    assert np.mean(guess.fails != fails) < 0.05
    registers = np.array([item.registers if isinstance(item, KernelProfile) else 0 for item in results])
    off = np.abs(guess.resources["registers"] - registers)[~fails & ~guess.fails]
    assert np.mean(off > 2) < 0.05


def test_estimated_registers_let_a_launch_run(before: KnownFacts, chosen):
    """Where the compiler is told of the block's size; elsewhere they fail, and that is foreseen."""
    guess = estimate(before, chosen, LIMITS, held=True)
    there = np.array([place not in chosen for place in range(len(SPACE))]) & (guess.resources["threads"] > 0)
    asked = Resources(**{name: values[there] for name, values in guess.resources.items()})
    assert occupancy.possible(occupancy.resident_blocks(LIMITS, asked)[1]).all()
    assert (asked.registers[asked.threads == 512] <= 128).all()
    assert asked.registers.max() == 255


def test_launches_that_their_registers_forbid_are_foreseen(
    before: KnownFacts, chosen: dict[int, KernelProfile | Failure]
) -> None:
    """On a GPU with few registers, of a source that does not tell the compiler how large blocks are."""
    small = replace(LIMITS, registers_per_block=np.int32(16_384))

    def run(**asked: np.ndarray) -> np.ndarray:
        asked = {name: np.asarray(values, int) for name, values in asked.items()}
        return np.asarray(occupancy.possible(occupancy.resident_blocks(small, Resources(**asked))[1]))

    guess = estimate(before, chosen, small)
    results = [result(*item) for item in SPACE]
    compiles = np.array([isinstance(item, KernelProfile) for item in results])
    registers = np.array([item.registers if isinstance(item, KernelProfile) else 0 for item in results])
    asked = {name: guess.resources[name] for name in ("blocks", "shared_bytes")}
    runs = compiles & run(threads=before.threads, registers=registers, **asked)
    others = np.array([place not in chosen for place in range(len(SPACE))])
    assert 10 < np.sum(others & ~runs) < np.sum(others) - 10
    assert guess.runs[others & ~runs].mean() < 0.2
    assert guess.runs[others & runs].mean() > 0.9
    np.testing.assert_array_equal(guess.runs[~others], compiles[~others])
    there = others & (guess.resources["threads"] > 0)
    foreseen = run(**{name: values[there] for name, values in guess.resources.items()})
    assert np.mean(foreseen == runs[there]) > 0.9


def declaring(added: int = 0) -> KnownFacts:
    """The same space, of a source that declares up to five times what a kernel may; launches add to that."""
    source = replace(SOURCE, text="__shared__ float a[64 * Y][2 * X + 1];")
    wanted = [
        Configuration(
            (("X", x), ("Y", y), ("TILE", tile), ("FLAG", flag)), (64 // tile, 3, 1), (x, y, 1), (), added
        )
        for x, y, tile, flag in SPACE
    ]
    return known(source, dict(zip(["X", "Y", "TILE", "FLAG"], np.array(SPACE).T, strict=True)), wanted)


def declared(x: int, y: int, tile: int, flag: int, most: int = 49_152) -> KernelProfile | Failure:
    """A made-up kernel of that source; all of it compiles that is let."""
    size = 256 * y * (2 * x + 1)
    if size > most:
        return Failure("too much shared memory", "")
    profile = result(x, 1, tile, flag)
    assert isinstance(profile, KernelProfile)
    return replace(profile, shared_bytes=size)


def test_what_declares_too_much_shared_memory_is_known_to_fail() -> None:
    before, actual = declaring(), {}
    while batch := choose(before, 40, actual):
        actual |= {place: declared(*SPACE[place]) for place in batch}
    fails = np.array([isinstance(declared(*item), Failure) for item in SPACE])
    assert 10 < fails.sum() < len(SPACE) - 40
    assert not fails[list(actual)].any()  # compiling them would tell nothing
    guess = estimate(before, actual, LIMITS)
    np.testing.assert_array_equal(guess.fails, fails)
    np.testing.assert_array_equal(guess.runs == 0.0, fails)


def test_a_text_that_compilers_belie_forbids_nothing() -> None:
    """As where arrays of kernels that are not asked for stand in it."""
    before = declaring()
    actual = {place: declared(*SPACE[place], most=10**6) for place in range(0, len(SPACE), 4)}
    assert before.too_large[list(actual)].any()
    assert not estimate(before, actual, LIMITS).fails.any()


def test_smooth_numbers_are_close_and_say_how_close(guess: Estimate) -> None:
    places = np.flatnonzero(~guess.fails)
    actual = {place: item for place in places if isinstance(item := result(*SPACE[place]), KernelProfile)}
    insts = NAMES.index("phases.0.insts")
    off = [guess.warps[place, insts] / item.numbers[insts] - 1 for place, item in actual.items()]
    assert np.median(np.abs(off)) < 0.02
    errors = guess.errors()
    assert len(errors["phases.0.insts"]) == len(guess.compiled)
    assert np.median(np.abs(errors["phases.0.insts"])) < 0.05
    assert np.abs(errors["work.fp32"]).max() < 1e-6


def test_numbers_below_zero_are_estimated_too(before: KnownFacts, chosen):
    """In a phase a warp may wait less for a pipe than nothing, where it waited for it before."""
    columns = [n for n, name in enumerate(NAMES) if name.startswith("phases.0.waits.")]

    def below(warp: np.ndarray, waits: float) -> np.ndarray:
        return np.where(np.isin(np.arange(len(warp)), columns), waits, warp)

    results = {
        place: replace(item, numbers=below(item.numbers, 2.0 * (place % 3 - 1)))
        if isinstance(item, KernelProfile)
        else item
        for place, item in chosen.items()
    }
    waits = estimate(before, results, LIMITS).warps[:, columns]
    assert np.isfinite(waits).all()
    assert waits.min() >= -2.0


def test_too_few_is_refused(before: KnownFacts) -> None:
    with pytest.raises(ValueError, match="fewer than two"):
        estimate(before, {0: Failure("compile error", "")}, LIMITS)


def test_a_pattern_that_no_stride_explains_is_not_called_exact() -> None:
    block = np.array([(x, 4, 1) for x in (8, 16, 32, 64)])
    names = {"x": block[:, 0]}
    assert not conflicts(block, names, 4, np.arange(4), np.array([1.3, 2.7, 1.9, 3.1]))[1]


def test_a_process_left_out_is_one_fitted_without() -> None:
    """Given the same settings; against the textbook's formula with one point gone."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(12, 2))
    process = fitted(points, np.sin(points[:, 0]) + points[:, 1])
    values = (np.sin(points[:, 0]) + points[:, 1] - process.mean) / process.scale
    whole = process.standardised.posterior.cholesky @ process.standardised.posterior.cholesky.T
    for gone in range(12):
        rest = np.arange(12) != gone
        expected = whole[gone, rest] @ np.linalg.solve(whole[np.ix_(rest, rest)], values[rest])
        actual = values[gone] - process.left_out[gone] / process.scale
        assert actual == pytest.approx(expected, abs=1e-6)
