"""Symbolic evaluation against plain Python, which looks at one lane after the other."""

from collections import defaultdict
from random import Random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dse import kernels
from dse.core.space.expression import parse
from dse.errors import DseError
from dse.hardware import gpus
from dse.hardware.banks import passes
from dse.hardware.coalescing import sectors_and_lines
from dse.hardware.lanes import threads, warps
from dse.kernels.description import describe
from dse.kernels.symbolic.average import SAMPLES, average_access
from dse.kernels.symbolic.conditions import (
    all_alike_from,
    comparison_bound,
    comparison_steps,
    modulo_steps,
    overall_weight,
    weights,
)
from dse.kernels.symbolic.subscript import parse_subscript
from dse.kernels.symbolic.unknowns import over_residues

# Lane by lane


def lanes_of(block, warp):
    """(tx, ty, tz) of each lane, None where there is no thread."""
    x, y, z = block
    found = []
    for thread in range(32 * warp, 32 * warp + 32):
        inside = thread < x * y * z
        found.append((thread % x, thread // x % y, thread // (x * y)) if inside else None)
    return found


def touched(addresses, unit):
    """Sectors or lines of so many bytes."""
    return len({at // unit for at in addresses if at is not None})


def busiest_bank(words, banks):
    found = defaultdict(set)
    for word in words:
        if word is not None:
            found[word % banks].add(word)
    return max(map(len, found.values()), default=0)


# Expressions of the papers' class: sums of products of variables, modulo and divided by powers of two, and
# scaled


def random_index(rng, depth=2):
    if depth == 0:
        return rng.choice(["tx", "ty", "bx", "n", "k", str(rng.randint(1, 33))])
    terms = []
    for _ in range(rng.randint(1, 2)):
        factors = []
        for _ in range(rng.choice([1, 1, 2])):
            inner = random_index(rng, depth - 1)
            power = rng.choice(["1", "2", "8", "32", "2 ** k", "2 ** (k + 1)"])
            shapes = [
                f"({inner}) % ({power})",
                f"({inner}) // ({power})",
                f"({power}) * ({inner})",
                f"{rng.randint(1, 9)} * ({inner})",
                f"({inner})",
            ]
            factors.append(rng.choice(shapes))
        terms.append(" * ".join(factors))
    return " + ".join(terms)


def test_a_thousand_random_expressions():
    rng = Random(1)
    block, bound = (24, 3, 1), {"n": 100, "k": 3, "bx": 5}
    lanes, mask = threads(block, np.arange(warps(block)), np)
    names = lanes | {name: np.asarray(value) for name, value in bound.items()}
    counts: dict[str, set] = defaultdict(set)
    for _ in range(1000):
        text = random_index(rng)
        index = np.broadcast_to(parse(text, "test")(names, np), mask.shape)
        code, size = compile(text, "", "eval"), rng.choice([4, 4, 8, 16])
        sectors, lines = sectors_and_lines(size * index, mask, np)
        through = passes(4 * index, mask, 4, np)
        for warp in range(warps(block)):
            at = [
                None if t is None else eval(code, bound | dict(zip(("tx", "ty", "tz"), t, strict=True)))
                for t in lanes_of(block, warp)
            ]
            assert [None if t is None else int(i) for t, i in zip(at, index[warp], strict=True)] == at
            addresses = [None if i is None else size * i for i in at]
            expected = touched(addresses, 32), touched(addresses, 128), busiest_bank(at, 32)
            assert (int(sectors[warp]), int(lines[warp]), int(through[warp])) == expected, text
            for name, number in zip(("sectors", "lines", "passes"), expected, strict=True):
                counts[name].add(number)
    assert min(map(len, counts.values())) >= 6


def test_an_index_of_a_fourier_transform():
    # Expression 15, and its last form in Fig. 6: the same for N a multiple of 2^J.
    whole = parse("(b * n + t) // 2 ** j * 2 ** (j + 1) + (b * n + t) % 2 ** j + i * 2 ** j", "test")
    apart = parse("2 * b * n + t // 2 ** j * 2 ** (j + 1) + t % 2 ** j + i * 2 ** j", "test")
    t, b, j = np.arange(256)[:, None, None], np.arange(5)[None, :, None], np.arange(7)[None, None, :]
    names = {"t": t, "b": b, "j": j, "n": np.asarray(3 * 64), "i": np.asarray(1)}
    np.testing.assert_array_equal(whole(names, np), apart(names, np))
    index = whole(names | {"b": np.asarray(0)}, np)[:, 0, :].T.reshape(7, -1, 32)
    found, _ = sectors_and_lines(4 * index, np.ones(index.shape, bool), np)
    assert found.mean(1).tolist() == [8, 8, 8, 4, 4, 4, 4]  # every second element, every second pair, ...


# Unknown values


def test_unknown_pitch_of_a_tile():
    # A column of a tile: as many lanes to a bank as the greatest common divisor of pitch and banks.
    names, mask = threads((32, 1, 1), np.arange(1), np)
    index = parse("tx * pitch + k", "test")

    def cost(at):
        return passes(4 * at, np.broadcast_to(mask, at.shape), 4, np)

    found = over_residues(index, cost, names, ["pitch", "k"], 32)
    expected = [np.gcd(pitch, 32) for pitch in range(32)]
    np.testing.assert_array_equal(found.cost, np.repeat(np.array(expected)[:, None], 32, 1))
    assert (found.best, found.worst, found.mean) == (1, 32, np.mean(expected))
    assert found.at(pitch=48, k=3) == 16
    for pitch in (64, 65, 72, 4096):  # the residue 0 is not a pitch of 0, where all lanes share a word
        assert found.at(pitch=pitch, k=0) == busiest_bank([lane * pitch for lane in range(32)], 32)
    with pytest.raises(DseError, match="unknowns: found 4, expected at most 3"):
        over_residues(index, cost, names, ["a", "b", "c", "d"], 32)


def test_unknown_row_length_and_sectors():
    names, mask = threads((16, 2, 1), np.arange(1), np)
    index = parse("ty * n + tx", "test")
    found = over_residues(
        index, lambda at: sectors_and_lines(4 * at, np.broadcast_to(mask, at.shape), np)[0], names, ["n"], 8
    )
    expected = [
        touched([4 * (ty * (8000 + n) + tx) for ty in (0, 1) for tx in range(16)], 32) for n in range(8)
    ]
    assert found.cost.tolist() == expected
    assert (found.best, found.worst) == (4, 5)


# Branches


def plain_weights(holds, block, steps):
    counts, total = np.zeros(3), 0
    for step in steps:
        for warp in range(-(-block[0] * block[1] // 32)):
            values = [holds(t, step) for t in lanes_of(block, warp) if t is not None]
            taken, passed = any(values), not all(values)
            counts += taken, passed, taken and passed
            total += 1
    return counts / total


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("3 * tx + 5 <= 2 * i + 1", lambda t, i: 3 * t[0] + 5 <= 2 * i + 1),
        ("(tx + 1) % (7 * i + 5) == 0", lambda t, i: (t[0] + 1) % (7 * i + 5) == 0),
        ("tx == 4 * i or ty >= i", lambda t, i: t[0] == 4 * i or t[1] >= i),
        ("2 ** i > tx + ty", lambda t, i: 2**i > t[0] + t[1]),
    ],
)
def test_weights_of_branches(text, holds):
    block, steps = (24, 5, 1), range(12)
    found = weights(parse(text, "test"), block, {}, {"i": np.array(steps)}, np)
    np.testing.assert_allclose(found, plain_weights(holds, block, steps), rtol=1e-14)
    assert 0 < found.taken < 1


def test_weights_for_several_values_and_loops():
    condition = parse("tx < n - i - 8 * j", "test")
    n = np.array([[0, 20], [40, 200]])
    found = weights(condition, (64, 1, 1), {"n": n}, {"i": np.arange(3), "j": np.arange(2)}, np)
    jitted = jax.jit(
        lambda n: weights(condition, (64, 1, 1), {"n": n}, {"i": jnp.arange(3), "j": jnp.arange(2)})
    )
    for place in np.ndindex(2, 2):
        both = [(i, j) for i in range(3) for j in range(2)]
        expected = plain_weights(lambda t, s, at=n[place]: t[0] < at - s[0] - 8 * s[1], (64, 1, 1), both)
        np.testing.assert_allclose([each[place] for each in found], expected)
    np.testing.assert_allclose(np.array(jitted(jnp.asarray(n))), np.array(found), rtol=1e-14)


def test_closed_forms():
    # t <= i, 256 threads: the steps are a triangle, and Eq. 12 with the weight of all of them is right from
    # I_0 on.
    count, threads_ = 255, 256
    assert all_alike_from(1, 0, 1, 0, threads_) == 255
    exact = sum(max(0, count - t + 1) for t in range(threads_))
    assert comparison_steps(1, 0, 1, 0, threads_, count) == exact
    assert comparison_bound(1, 1, threads_) == exact
    assert modulo_steps(2, 3, 10) == pytest.approx(sum((2 * t + 3) / 2 for t in range(10)))

    def taken(last):
        found = weights(parse("tx <= i", "test"), (256, 1, 1), {}, {"i": np.arange(last + 1)}, np)
        return float(found.taken)

    before = float(weights(parse("tx <= i", "test"), (256, 1, 1), {}, {"i": np.arange(255)}, np).taken)
    assert before == pytest.approx(143 / 255)  # of 255 steps, the last of which is 254
    for last in (255, 600, 5000):
        assert overall_weight(before, 255, last, xp=np) == pytest.approx(taken(last), abs=1.5 / last)
    # What Eq. 12 loses: a loop that ends before I_0.
    assert taken(15) == 1 / 8
    assert overall_weight(before, 255, 15, xp=np) == before


def test_beyond_its_last_factor_a_modulo_condition_fails():
    # Not "true for all threads", as the paper has it: only t = 0 with B = 0 is left.
    for b, after in ((1, 0.0), (0, 1 / 8)):
        last, condition = 2000, parse(f"(tx + {b}) % (i + 1) == 0", "test")
        alike = all_alike_from(1, b, 1, 1, 256)
        steps = np.arange(last + 1)
        before = weights(condition, (256, 1, 1), {}, {"i": steps[: int(alike) + 1]}, np).taken
        exact = weights(condition, (256, 1, 1), {}, {"i": steps}, np).taken
        assert overall_weight(before, alike, last, after, np) == pytest.approx(float(exact), abs=2e-3)
        assert overall_weight(before, alike, last, xp=np) > float(exact) + 0.5


# Whole spaces


def test_the_average_warp_of_many_blocks():
    """All warps of a block, in the blocks and trips that are looked at."""
    element = parse_subscript("A[(by * nty + ty) * n + bx * ntx + tx + k]", "test", {"n", "k"})
    x, y = np.array([[4, 8, 16, 24, 32, 48, 64]]), np.array([[32, 4, 4, 4, 3, 2, 2]])
    n, sizes = 1000, np.array([[32], [64]])

    def run(shared, width):
        return average_access(
            element.index,
            ("k",),
            {"n": jnp.asarray(n)},
            (jnp.asarray(x), jnp.asarray(y), jnp.asarray(1)),
            jnp.asarray(sizes),
            width,
            shared,
        )

    in_global, in_shared = run(False, 4), run(True, jnp.asarray(8))
    for (row, column), found in np.ndenumerate(np.asarray(in_global["sectors"])):
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
                passes(halves, mask, 8, np).sum(),
            )
        expected = totals / looked
        assert found == pytest.approx(expected[0])
        assert in_global["passes"][row, column] == pytest.approx(expected[1])
        assert in_shared["passes"][row, column] == pytest.approx(expected[2])


@pytest.mark.parametrize(("text", "width", "expected"), [("A[k]", 16, 4), ("A[k]", 4, 1), ("A[tx]", 16, 4)])
def test_the_l1_hands_each_thread_its_bytes_also_where_all_load_the_same(text, width, expected):
    element = parse_subscript(text, "test", {"k"})
    block = (jnp.asarray(64), jnp.asarray(1), jnp.asarray(1))
    found = average_access(element.index, ("k",), {}, block, 32, width, False)
    assert found["passes"] == expected


@pytest.mark.parametrize("text", ["A", "A[tx", "A[tx][ty]", "2[tx]"])
def test_what_is_no_subscript(text):
    with pytest.raises(DseError, match=r"^f: "):
        parse_subscript(text, "f", {"n"})


def test_unknown_names_in_a_subscript():
    with pytest.raises(DseError, match="unknown name 'm'"):
        parse_subscript("A[bx * ntx + tx + m]", "f", {"n"})
    assert parse_subscript(" tile [ tx + n ] ", "f", {"n"}).array == "tile"


def test_a_fraction_is_no_index():
    sizes = jnp.asarray(32), jnp.asarray(1), jnp.asarray(1)
    with pytest.raises(DseError, match="found 'tx / 2', a fraction, expected whole numbers"):
        average_access(parse("tx / 2", "test"), (), {}, sizes, jnp.asarray(32), 4, False)


def test_transpose_by_its_subscripts_is_as_counted_by_hand():
    description, gpu = kernels.load("transpose"), gpus.load("a100-pcie-40gb", np.float64).gpu
    p = description.space.configurations(description.sizes())
    found, _ = describe(description, p, {}, gpu)
    tile, rows, padding = p["tile"], p["rows"], p["padding"]
    # A column's elements lie `tile` banks apart, those of two columns of 16 eight to a bank; padded, none
    # meet but one pair of those. Two rows of 16, 17 apart, meet in one bank.
    column = np.where(padding, np.where(tile < 32, 2, 1), np.where(tile < 32, 8, 32))
    row = np.where((padding == 1) & (tile < 32), 2, 1)
    np.testing.assert_array_equal(found.work.shared, p["shared"] * rows * (row + column))
    lines_ = np.where(tile < 32, 2, 1)
    directly = np.where(p["shared"] == 1, lines_, np.minimum(tile, 32))  # written
    np.testing.assert_array_equal(found.work.l1, rows * (lines_ + directly))
    written = np.where(p["shared"] == 1, 4, np.minimum(tile, 32))
    np.testing.assert_array_equal(found.sectors, rows * (4 + written))
