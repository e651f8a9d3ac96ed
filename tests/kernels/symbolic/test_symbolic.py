"""Symbolic evaluation against plain Python, which looks at one lane after the other."""

import re
from functools import partial

import numpy as np
import pytest

from dse import kernels
from dse.core.space.expression import parse
from dse.errors import DseError
from dse.hardware import gpus
from dse.hardware.banks import passes
from dse.hardware.coalescing import sectors_and_lines
from dse.hardware.lanes import threads
from dse.kernels.description import describe, symbolic_rows
from dse.kernels.symbolic.average import SAMPLES, average_access
from dse.kernels.symbolic.conditions import Condition, published, share
from dse.kernels.symbolic.subscript import parse_subscript

# Lane by lane


def lanes_of(block, warp):
    """(tx, ty, tz) of each lane, None where there is no thread."""
    x, y, z = block
    seen = []
    for thread in range(32 * warp, 32 * warp + 32):
        inside = thread < x * y * z
        seen.append((thread % x, thread // x % y, thread // (x * y)) if inside else None)
    return seen


def test_threads_of_blocks_of_every_width():
    x, thread = np.arange(1, 1025)[:, None], np.arange(1024).reshape(32, 32)
    names, mask = threads((x, 32, 1), thread[:, 0] // 32)
    y, layer = thread // x[..., None] % 32, thread // (32 * x[..., None])
    for name, expected in {"tx": thread % x[..., None], "ty": y, "tz": layer}.items():
        np.testing.assert_array_equal(names[name], expected)
    np.testing.assert_array_equal(mask, layer == 0)


def test_an_index_of_a_fourier_transform():
    # Expression 15, and its last form in Fig. 6: the same for N a multiple of 2^J.
    whole = parse("(b * n + t) // 2 ** j * 2 ** (j + 1) + (b * n + t) % 2 ** j + i * 2 ** j", "test")
    apart = parse("2 * b * n + t // 2 ** j * 2 ** (j + 1) + t % 2 ** j + i * 2 ** j", "test")
    t, b, j = np.arange(256)[:, None, None], np.arange(5)[None, :, None], np.arange(7)[None, None, :]
    names = {"t": t, "b": b, "j": j, "n": np.asarray(3 * 64), "i": np.asarray(1)}
    np.testing.assert_array_equal(whole(names, np), apart(names, np))
    index = whole(names | {"b": np.asarray(0)}, np)[:, 0, :].T.reshape(7, -1, 32)
    actual, _ = sectors_and_lines(4 * index, np.ones(index.shape, bool))
    assert actual.mean(1).tolist() == [8, 8, 8, 4, 4, 4, 4]  # every second element, every second pair, ...


# Unknown sizes


@pytest.mark.slow
def test_costs_over_the_residues_of_an_unknown_size():
    description, gpu = kernels.load("transpose"), gpus.load("a100-pcie-40gb", np.float64).gpu
    configuration = {"tile": 16, "rows": 1, "shared": 1, "padding": 0}
    rows = {row["name"]: row for row in symbolic_rows(description, configuration, gpu, width=1000)}
    costs = []
    for width in range(992, 1024):  # the residues of 32 from the size on
        sectors = []
        for number in range(SAMPLES):  # warps of two rows, each in another block
            bx, by = number, 3 * number % 8
            lanes = [lane for lane in lanes_of((16, 16, 1), number) if lane]
            sectors.append(len({((by * 16 + ty) * width + bx * 16 + tx) // 8 for tx, ty, _ in lanes}))
        costs.append(np.mean(sectors))
    of_width = {"name": "input", "counted": "sectors", "value": costs[1000 - 992], "unknown": "width"}
    of_width |= {"least": min(costs), "mean": np.mean(costs), "most": max(costs)}
    assert rows["input"] == of_width
    assert "unknown" not in rows["tile, loaded"]  # no size is in it


# Branches


def plain_share(holds, block, steps):
    counts = [
        any(holds(t, step) for t in lanes_of(block, warp) if t is not None)
        for step in steps
        for warp in range(-(-block[0] * block[1] // 32))
    ]
    return np.mean(counts)


def branch(text, **trips):
    loops = tuple((name, parse(count, "test")) for name, count in trips.items())
    return Condition("test", parse(text, "test"), loops)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("3 * tx + 5 <= 2 * i + 1", lambda t, i: 3 * t[0] + 5 <= 2 * i + 1),
        ("(tx + 1) % (7 * i + 5) == 0", lambda t, i: (t[0] + 1) % (7 * i + 5) == 0),
        ("tx == 4 * i or ty >= i", lambda t, i: t[0] == 4 * i or t[1] >= i),
        ("2 ** i > tx + ty", lambda t, i: 2**i > t[0] + t[1]),
    ],
)
def test_share_of_the_warps_that_take_a_branch(text, holds):
    block = (24, 5, 1)
    taken = share(branch(text, i=12), {"warp_size": 32}, block)
    np.testing.assert_allclose(taken, plain_share(holds, block, range(12)), rtol=1e-14)
    assert 0 < taken < 1


def test_shares_of_many_configurations_loops_and_blocks():
    x, n, trips = np.array([[16, 64], [64, 512]]), np.array([[0, 20], [40, 200]]), np.array([3, 0])
    names = {"n": n, "trips": trips, "blocks": np.asarray(4), "warp_size": np.array([[32], [32]])}
    taken = share(branch("tx + 8 * bx < n - i - 8 * j", i="trips", j=2), names, (x, 1, 1))
    for row, column in np.ndindex(2, 2):
        steps = [(i, j, bx) for i in range(trips[column]) for j in range(2) for bx in range(4)]
        holds = partial(lambda t, s, at: t[0] + 8 * s[2] < at - s[0] - 8 * s[1], at=n[row, column])
        expected = plain_share(holds, (int(x[row, column]), 1, 1), steps) if steps else 0.0
        assert taken[row, column] == pytest.approx(expected)
    wide = share(branch("tx >= 32"), {"warp_size": np.array([32, 64])}, (64, 1, 1))
    assert wide.tolist() == [0.5, 1.0]


def test_the_closed_form_of_a_comparison_beside_the_share():
    names = {"warp_size": np.asarray(32)}
    block = (256, 1, 1)

    def both(last):  # t <= i, 256 threads: I_0 is 255
        condition = branch("tx <= i", i=last + 1)
        return published(condition, names, block), float(share(condition, names, block))

    for last in (255, 600, 5000):
        paper, exact = both(last)
        assert paper == pytest.approx(exact, abs=5e-3)
    paper, exact = both(15)
    assert (paper, exact) == (143 / 255, 1 / 8)  # Eq. 12 loses that the loop ends before I_0
    assert published(branch("i >= tx", i=600), names, block) == both(599)[0]
    assert published(branch("tx % 2 == i", i=4), names, block) is None
    assert published(branch("tx * tx < i", i=4), names, block) is None


BRANCHES = """
name = "own"
summary = "sums in half of the warps"
[parameters]
block = [64, 128]
[launch]
threads = "block"
blocks = 100
registers = 16
[[branch]]
name = "half"
when = "tx < block // 2"
[warp]
fp32 = "10 + 8 * half"
[[phase]]
name = "sums"
passes = "4 * half"
fp32 = "8 * half"
[[access]]
name = "x"
space = "global"
op = "load"
count = "half"
phase = "sums"
[[phase]]
name = "rest"
"""


def test_branches_and_passes_of_a_description(tmp_path):
    path, gpu = tmp_path / "kernel.toml", gpus.load("a100-pcie-40gb", np.float64).gpu
    path.write_text(BRANCHES)
    kernel, _ = describe(kernels.load(path), {"block": np.array([64, 128])}, {}, gpu)
    assert [phase.passes.tolist() for phase in kernel.phases] == [[2.0, 2.0], 1.0]
    sums, rest = kernel.phases
    np.testing.assert_allclose(sums.passes * sums.work.fp32 + rest.work.fp32, kernel.work.fp32)
    np.testing.assert_allclose(sums.passes * sums.memory_insts, kernel.load_insts)
    np.testing.assert_allclose(sums.passes * sums.waits.dram, kernel.load_insts)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tx <", "by <", "branch.half.when: unknown name 'by'"),
        ("block = [", "tx = [1]\nblock = [", "branch.half.when: found a parameter, size or let 'tx'"),
        ('name = "half"', 'name = "threads"', "branch.threads: found a name of the language"),
        ('name = "half"', 'name = "half"\nloops = { block = 4 }', "branch.half.loops: found 'block'"),
        ('name = "half"', 'name = "half"\ntrips = 4', "branch.half.trips: found an unknown field"),
    ],
)
def test_mistakes_in_a_branch(tmp_path, old, new, message):
    path = tmp_path / "kernel.toml"
    path.write_text(BRANCHES.replace(old, new, 1))
    with pytest.raises(DseError, match=re.escape(f"{path}: {message}")):
        kernels.load(path)


# Whole spaces


@pytest.mark.slow
def test_the_average_warp_of_many_blocks():
    """All warps of a block, in the blocks and trips that are looked at."""
    element = parse_subscript("A[(by * nty + ty) * n + bx * ntx + tx + k]", "test", {"n", "k"})
    x, y = np.array([[4, 8, 16, 24, 32, 48, 64]]), np.array([[32, 4, 4, 4, 3, 2, 2]])
    n, sizes = 1000, np.array([[32], [64]])

    def run(shared, width):
        return average_access(
            element.index,
            ("k",),
            {"n": n},
            (x, y, 1),
            sizes,
            width,
            shared,
        )

    in_global, in_shared = run(False, 4), run(True, 8)
    for (row, column), actual in np.ndenumerate(np.asarray(in_global["sectors"])):
        block, size = (int(x[0, column]), int(y[0, column]), 1), int(sizes[row, 0])
        count = -(-block[0] * block[1] // size)
        looked = SAMPLES // count * count if count < SAMPLES else SAMPLES
        totals = np.zeros(3)
        for number in range(looked):
            bx, by, k = number, 3 * number % 8, 7 * number % 8
            lanes = [
                lane
                for part in range(size // 32)
                for lane in lanes_of(block, number % count * size // 32 + part)
            ]
            at = [None if t is None else (by * block[1] + t[1]) * n + bx * block[0] + t[0] + k for t in lanes]
            there = [i for i in at if i is not None]
            halves = np.array([0 if i is None else 8 * i for i in at]).reshape(1, -1, 32)
            mask = np.array([i is not None for i in at]).reshape(1, -1, 32)
            totals += (
                len({i // 8 for i in there}),
                len({i // 32 for i in there}),
                passes(halves, mask, 8).sum(),
            )
        expected = totals / looked
        assert actual == pytest.approx(expected[0])
        assert in_global["passes"][row, column] == pytest.approx(expected[1])
        assert in_shared["passes"][row, column] == pytest.approx(expected[2])


@pytest.mark.parametrize("text", ["A", "A[tx", "A[tx][ty]", "2[tx]", "A[bx * ntx + tx + m]"])
def test_what_is_no_subscript(text):
    with pytest.raises(DseError, match=r"^f: "):
        parse_subscript(text, "f", {"n"})
    assert parse_subscript(" tile [ tx + n ] ", "f", {"n"}).array == "tile"


def test_a_fraction_is_no_index():
    with pytest.raises(DseError, match="found 'tx / 2', a fraction, expected whole numbers"):
        average_access(parse("tx / 2", "test"), (), {}, (32, 1, 1), 32, 4, False)


def test_transpose_by_its_subscripts_is_as_counted_by_hand():
    description, gpu = kernels.load("transpose"), gpus.load("a100-pcie-40gb", np.float64).gpu
    p = description.space.configurations(description.sizes())
    actual, _ = describe(description, p, {}, gpu)
    tile, rows, padding = p["tile"], p["rows"], p["padding"]
    # A column's elements lie `tile` banks apart, those of two columns of 16 eight to a bank; padded, none
    # meet but one pair of those. Two rows of 16, 17 apart, meet in one bank.
    column = np.where(padding, np.where(tile < 32, 2, 1), np.where(tile < 32, 8, 32))
    row = np.where((padding == 1) & (tile < 32), 2, 1)
    np.testing.assert_array_equal(actual.work.shared, p["shared"] * rows * (row + column))
    lines_ = np.where(tile < 32, 2, 1)
    directly = np.where(p["shared"] == 1, lines_, np.minimum(tile, 32))  # written
    np.testing.assert_array_equal(actual.work.l1, rows * (lines_ + directly))
    written = np.where(p["shared"] == 1, 4, np.minimum(tile, 32))
    np.testing.assert_array_equal(actual.sectors, rows * (4 + written))


@pytest.mark.parametrize("name", ["n", "x", "y", "z", "size"])
def test_parameters_may_have_any_name(name):
    costs = average_access(parse(f"tx * {name}", "test"), (), {name: np.int64(8)}, (32, 1, 1), 32, 4, False)
    assert costs["sectors"] == 32
    assert share(branch(f"tx < {name}"), {"warp_size": 32, name: 8}, (64, 1, 1)) == 0.5
