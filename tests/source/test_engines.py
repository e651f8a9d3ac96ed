"""The interpreters of both vendors, on the same kernels: they do what NumPy does, and skipped trips count as
those that are run.
"""

import random
import re
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from support.engines import AMD, NVIDIA, Ran, boxes_of_blocks, compiled, ran, ran_code

from dse.source.amd.execute.code import Code, code_of
from dse.source.amd.execute.interpret import execute
from dse.source.machine.launch import LaunchArguments, address_of
from dse.source.machine.liveness import Purpose
from dse.source.nvidia.machine.state import BoundProgram

BLOCKS, THREADS, STORES = 2, 128, 40
X = np.random.default_rng(5).integers(0, 1 << 32, (BLOCKS * THREADS, 4), np.uint64).astype(np.uint32)
X[:5] = [[0, 1, 2, 3], [0xFFFFFFFF] * 4, [1 << 31, 31, 32, 33], [5, 0, 0, 7], [1 << 31, 0xFFFFFFFF, 1, 0]]
U32 = np.uint32


def signed(p: np.ndarray) -> np.ndarray:
    return p.view(np.int32).astype(np.int64)


def wide(p: np.ndarray) -> np.ndarray:
    return p.astype(np.uint64)


def bits(p: np.ndarray) -> np.ndarray:
    """[words, 32], lowest first."""
    return (p[:, None] >> np.arange(32, dtype=U32)) & U32(1)


def length(p: np.ndarray) -> np.ndarray:
    """Bits up to the highest one."""
    return np.array([int(word).bit_length() for word in p], U32)


ONE, FIVE_BITS = U32(1), U32(31)
# Operations on words p and q in C, and in NumPy.
OPERATIONS: list[tuple[str, Callable[[np.ndarray, np.ndarray], np.ndarray]]] = [
    ("(p + q)", lambda p, q: p + q),
    ("(p - q)", lambda p, q: p - q),
    ("(p * q)", lambda p, q: p * q),
    ("(p & ~q)", lambda p, q: p & ~q),
    ("(p | q)", lambda p, q: p | q),
    ("(p ^ q)", lambda p, q: p ^ q),
    ("(p << (q & 31))", lambda p, q: p << (q & FIVE_BITS)),
    ("(p >> (q & 31))", lambda p, q: p >> (q & FIVE_BITS)),
    ("(unsigned)((int)p >> (q & 31))", lambda p, q: signed(p) >> signed(q & FIVE_BITS)),
    ("(p / (q | 1))", lambda p, q: p // (q | ONE)),
    ("(p % (q >> 12 | 1))", lambda p, q: p % (q >> U32(12) | ONE)),
    ("(p / 7 + q % 13)", lambda p, q: p // U32(7) + q % U32(13)),
    ("(unsigned)((int)p / (int)(q >> 20 | 1))", lambda p, q: np.trunc(signed(p) / (q >> U32(20) | ONE))),
    ("(unsigned)((int)p % (int)(q >> 20 | 1))", lambda p, q: np.fmod(signed(p), signed(q >> U32(20) | ONE))),
    ("min(p, q)", np.minimum),
    ("(unsigned)max((int)p, (int)q)", lambda p, q: np.maximum(signed(p), signed(q))),
    ("(p < q ? p : q * 3)", lambda p, q: np.where(p < q, p, q * U32(3))),
    ("((int)p >= (int)q ? q : 5u)", lambda p, q: np.where(signed(p) >= signed(q), q, U32(5))),
    ("__umulhi(p, q)", lambda p, q: wide(p) * wide(q) >> np.uint64(32)),
    ("(unsigned)__mulhi((int)p, (int)q)", lambda p, q: signed(p) * signed(q) >> 32),
    ("(unsigned)(((unsigned long long)p * q + p) >> 13)", lambda p, q: wide(p) * q + p >> np.uint64(13)),
    ("(unsigned)(((long long)(int)p - (long long)(int)q) >> 3)", lambda p, q: signed(p) - signed(q) >> 3),
    ("(unsigned)__popc(p ^ q)", lambda p, q: bits(p ^ q).sum(1)),
    ("((unsigned)__clz((int)p) + q)", lambda p, q: U32(32) - length(p) + q),
    ("((unsigned)__ffs((int)p) ^ q)", lambda p, q: length(p & (~p + ONE)) ^ q),
    ("(__brev(p) + q)", lambda p, q: (bits(p) << np.arange(31, -1, -1, dtype=U32)).sum(1, U32) + q),
    ("__byte_perm(p, q, 0x3410)", lambda p, q: p & U32(0xFF00FFFF) | (q & U32(0xFF)) << U32(16)),
]


def wrapped(values: np.ndarray) -> np.ndarray:
    return values if values.dtype == U32 else values.astype(np.int64).astype(U32)


def expressions(seed: int, count: int) -> list[tuple[str, np.ndarray]]:
    """Nested operations in C, each with its value in every thread; all operations take part."""
    rng = random.Random(seed)
    known = [(name, X[:, column]) for column, name in enumerate("abcd")]
    order = [*OPERATIONS, *rng.choices(OPERATIONS, k=count - len(OPERATIONS))]
    rng.shuffle(order)
    made = []
    for text, compute in order:
        (p, left), (q, right) = rng.choice(known), rng.choice(known)
        with np.errstate(all="ignore"):
            value = wrapped(compute(left, right))
        made.append((re.sub(r"\bp\b", p, text.replace("q", q)), value))
        if len(made[-1][0]) < 300:
            known.append(made[-1])
    return made


def store(number: int, value: str) -> str:
    """A store whose address tells a value of 16 bits."""
    return f"    {{ const unsigned v = {value}; out[{number}u << 16 | ((v ^ v >> 16) & 0xffff)] = 0; }}\n"


HEAD = """extern "C" __global__ void {name}(const uint4* x, char* out)
{{
    const unsigned t = threadIdx.x;
    const uint4 word = x[blockIdx.x * blockDim.x + t];
    const unsigned a = word.x, b = word.y, c = word.z, d = word.w;
"""
EXPRESSIONS = expressions(seed=1, count=STORES)
FLOW = [
    "for (unsigned i = 0; i < (b & 31); ++i) s = s * 5 + i;",  # lanes leave one by one
    "if (c & 1) { if (c & 2) s ^= d; else s += d; } else if (c & 4) s = 3;",
    "tile[t] = s; __syncthreads(); s += tile[t ^ 37];",
    "for (unsigned far = 1; far < 128; far *= 2) {\n"
    "    const unsigned left = t >= far ? tile[t - far] : 0;\n"
    "    __syncthreads(); tile[t] += left; __syncthreads();\n"
    "} s ^= tile[t];",
    "s = __shfl_xor_sync(~0u, s, 5) + 3 * __shfl_down_sync(~0u, s, 3);",
    "s = __shfl_up_sync(~0u, s, 2, 8) ^ __shfl_sync(~0u, s, (t * 7) & 31);",
    "for (unsigned n = (d & 63) + 1; n != 1; n = n & 1 ? 3 * n + 1 : n / 2) ++s;",
    "if (d % 3 == 0) return;",
]
CODE = (
    HEAD.format(name="values")
    + "".join(store(n, text) for n, (text, _) in enumerate(EXPRESSIONS))
    + "}\n"
    + HEAD.format(name="flow")
    + "    __shared__ unsigned tile[128];\n    unsigned s = a;\n"
    + "".join(f"#pragma unroll 1\n    {line}\n".replace("#pragma unroll 1\n    if", "    if").replace(
        "#pragma unroll 1\n    s", "    s").replace("#pragma unroll 1\n    t", "    t") + store(n, "s")
        for n, line in enumerate(FLOW))
    + "}\n"
)  # fmt: skip


def flow() -> list[tuple[np.ndarray, np.ndarray]]:
    """What each step of FLOW leaves in `s`, and which threads are there to store it."""
    a, b, c, d = (X[:, column].astype(np.int64) for column in range(4))
    s, there, results = a.copy(), np.ones(len(a), bool), []
    threads = np.arange(len(a))
    t, first = threads % THREADS, threads - threads % THREADS
    lane, warp = threads % 32, threads - threads % 32

    def keep(values: np.ndarray) -> np.ndarray:
        results.append((values & 0xFFFFFFFF, there))
        return values & 0xFFFFFFFF

    for i in range(31):
        s = np.where(i < (b & 31), s * 5 + i & 0xFFFFFFFF, s)
    s = keep(s)
    s = keep(np.where(c & 1, np.where(c & 2, s ^ d, s + d), np.where(c & 4, 3, s)))
    tile = s.copy()
    s = keep(s + tile[first + (t ^ 37)])
    s = keep(s ^ tile.reshape(BLOCKS, THREADS).cumsum(1).ravel() & 0xFFFFFFFF)
    down = np.where(lane + 3 < 32, s[np.minimum(threads + 3, len(s) - 1)], s)
    s = keep(s[warp + (lane ^ 5)] + 3 * down)
    up = np.where(lane % 8 >= 2, s[threads - 2], s)
    s = keep(up ^ s[warp + (t * 7 & 31)])
    for thread, n in enumerate(((d & 63) + 1).tolist()):
        while n != 1:
            n = 3 * n + 1 if n & 1 else n // 2
            s[thread] += 1
    s = keep(s)
    there = d % 3 != 0
    keep(s)
    return results


def stored(launch: Ran) -> dict[int, np.ndarray]:
    """By the number of a store, what the addresses of all threads tell; -1 where one does not store."""
    actual: dict[int, np.ndarray] = {}
    for access in launch.accesses:
        for trip in access.trips.tolist():
            address = (access.address + trip - address_of(1)).ravel()
            here = access.active.ravel() & (address >= 0) & (address < STORES << 16)
            for number in np.unique(address[here] >> 16).tolist():
                mine = here & (address >> 16 == number)
                values = actual.setdefault(number, np.full(len(address), -1))
                assert (values[mine] == -1).all()
                values[mine] = address[mine] & 0xFFFF
    return actual


def checksum(value: np.ndarray) -> np.ndarray:
    value = value.astype(np.int64)
    return (value ^ value >> 16) & 0xFFFF


@pytest.mark.quick("sm_80", "gfx90a")
@pytest.mark.parametrize("target", [*NVIDIA, *AMD])
def test_generated_expressions_have_the_values_that_numpy_computes(target):
    actual = stored(ran(CODE, "values", target, (BLOCKS, 1, 1), THREADS, X.ravel(), None))
    for number, (text, value) in enumerate(EXPRESSIONS):
        np.testing.assert_array_equal(actual[number], checksum(value), text)


@pytest.mark.quick("sm_80", "gfx90a")
@pytest.mark.parametrize("target", [*NVIDIA, *AMD])
def test_lanes_part_meet_and_exchange_words_as_in_numpy(target):
    actual = stored(ran(CODE, "flow", target, (BLOCKS, 1, 1), THREADS, X.ravel(), None))
    for number, (value, there) in enumerate(flow()):
        np.testing.assert_array_equal(actual[number], np.where(there, checksum(value), -1), FLOW[number])


TRIPS = 400
# Loops over `i`; what they load is summed up. Those of the first group are skipped; the others are run, or
# it is said that their addresses are estimated.
LOOPS = {
    "even": "LOOP(n) sum += x[t + 64 * i];",
    "slow": "LOOP(n) sum += x[i + 1024 * t];",
    "backwards": "LOOP(n) sum += x[t + 64 * (n - i)];",
    "strided by the grid": "for (int i = t; i < 90 * n; i += gridDim.x * blockDim.x) sum += x[i];",
    "two in one another": "LOOP(n / 8) ROUND(8) sum += x[t + 64 * j + 640 * i];",
    "inner one long": "LOOP(8) ROUND(n) sum += x[t + 64 * j + 64000 * i];",
    "a barrier": "LOOP(n) { tile[t] = x[t + 64 * i]; __syncthreads(); sum += tile[t ^ 1]; __syncthreads(); }",
    "lanes join": "LOOP(n) if (i > t) sum += x[t + 64 * i];",
    "once": "LOOP(n) { sum += x[t + 64 * i]; if (i == 333) sum += x[t]; }",
    "ends by halves": "LOOP(t < 20 ? n / 2 : n) sum += x[t + 64 * i];",
    "64-bit": "const float* p = x + t; LOOP(n) { sum += *p; p += 1l << 20; }",
}
UNEVEN = {
    "by turns": "int at = 0; LOOP(n) { tile[64 * at + t] = x[t + 64 * i]; at = at < 2 ? at + 1 : 0; }"
    " sum = tile[t];",
    "triangle": "LOOP(24) ROUND(i) sum += x[t + 64 * (24 * i + j)];",
    "shifted": "LOOP(100) sum += x[t + 64 * (i >> 2)];",
    "bits": "LOOP(100) sum += x[t ^ i];",
    "square": "LOOP(100) sum += x[t + i * i];",
    "lanes apart": "LOOP(100) sum += x[t * i];",
}
HELPERS = """
#define LOOP(trips) _Pragma("unroll 1") for (int i = 0; i < (trips); ++i)
#define ROUND(trips) _Pragma("unroll 1") for (int j = 0; j < (trips); ++j)
"""


def looped(bodies: Iterable[str]) -> str:
    return HELPERS + "".join(
        f'extern "C" __global__ void loop{number}(const float* x, float* y, int n)\n{{\n'
        f"    __shared__ float tile[192];\n    const int t = threadIdx.x;\n    float sum = 0;\n    {body}\n"
        "    y[t] = sum;\n}\n"
        for number, body in enumerate(bodies)
    )


LOOPED = looped([*LOOPS.values(), *UNEVEN.values()])


CONDITIONS = ["t & 1", "t < 20", "t > 31", "n > 9", "i > t", "i < n / 2", "i * 4 < n + t", "t + i < 90"]
OF_BLOCKS = ["b & 1", "b * 64 + t < 300", "c > 2", "max(b, c) < 4", "i > b", "i < n / (c + 1)"]
OF_BLOCKS += ["b * i < n", "x2[b] < 9"]
COUNTS, COUNTS_OF_BLOCKS = ["4", "20", "n / 4", "t & 3"], ["4", "b + 20", "n / 4 - c", "b < 3 ? 30 : 9"]
TRIPS_OF_BLOCKS = ["n", "n - b", "40 - c", "min(b, 5) + 9"]


def statement(draw: random.Random, depth: int, conditions: list[str], counts: list[str]) -> str:
    """A statement of a random loop over i: a load, under conditions, in a loop."""
    index = f"t * {draw.choice([1, 1, 4, 40])} + i * {draw.choice([1, 16, 64, 4096])}"
    kind = draw.choice(["load", "load", "load", "if", "if", "else", "loop", "leave"][: 8 if depth < 2 else 3])
    condition = draw.choice(conditions)

    def inner(depth: int) -> str:
        return statement(draw, depth, conditions, counts)

    if kind == "if":
        return f"if ({condition}) {{ {inner(depth + 1)} }}"
    if kind == "else":
        return f"if ({condition}) {{ {inner(2)} }} else {{ {inner(2)} }}"
    if kind == "loop":
        return f"ROUND({draw.choice(counts)}) {{ sum += x[{index} + j * 512]; }}"
    if kind == "leave":
        return f"if ({condition}) {draw.choice(['continue', 'break'])};"
    return f"sum += x[{index}];"


def random_loop(seed: int, conditions: list[str], counts: list[str], trips: list[str]) -> str:
    draw = random.Random(seed)
    head = f"LOOP({draw.choice(trips)})"
    return (
        f"{head} {{ {' '.join(statement(draw, 0, conditions, counts) for _ in range(draw.randint(1, 4)))} }}"
    )


# A third of the random loops at a time; gfx1100 executes as gfx90a does, in warps of 32
THIRDS = pytest.mark.parametrize(
    ("target", "third"),
    [("sm_80", 0), ("gfx90a", 0), ("sm_80", 1), ("gfx1100", 1), ("sm_80", 2), ("gfx90a", 2)],
)


OF_THREADS = CONDITIONS, COUNTS, ["n", "n", "n - t", "n / (1 + (t & 1))"]
RANDOM = [random_loop(seed, *OF_THREADS) for seed in [*range(40), 422, 491]]
RANDOMLY = looped(RANDOM)


@pytest.mark.quick("sm_80-0", "gfx90a-0")
@THIRDS
def test_skipped_trips_of_random_loops_count_as_those_that_are_run(target, third):
    exactly, numbers = 0, range(third, len(RANDOM), 3)
    for number in numbers:
        text = RANDOM[number]
        skipped, full = (
            ran(RANDOMLY, f"loop{number}", target, (2, 1, 1), 64, None, None, TRIPS // 4, skip=skip)
            for skip in (True, False)
        )
        assert +skipped.executed == +full.executed, text
        if not skipped.machine.estimated:
            exactly += len(skipped.accesses) < len(full.accesses)
            np.testing.assert_equal(skipped.addresses(), full.addresses(), text)
    assert exactly > len(numbers) / 3


NUMBERS = "const int b = blockIdx.x, c = blockIdx.y; const int* x2 = (const int*)y; "
BY_BLOCK = looped(NUMBERS + random_loop(n, OF_BLOCKS, COUNTS_OF_BLOCKS, TRIPS_OF_BLOCKS) for n in range(40))


WIDE = [  # numbers of blocks in 64 bits
    'LOOP(3) { _Pragma("unroll 1") for (long j = 0; j < b * 7l; ++j) sum += x[t + j * 512]; }',
    "if ((unsigned long)b * 64 + t < n + 200l) sum = x[t];",
    "if (b * 64l + c * 16l < (long)n) sum = x[t];",
]


def are_proven(code: BoundProgram | Code, grid: tuple[int, int, int], kernel: str) -> bool:
    """Whether a grid is cut into boxes, each of which executes what its blocks do."""
    launch = LaunchArguments(grid, (64, 1, 1), [None, 2 * np.arange(4096, dtype=U32), TRIPS // 10])
    full, boxes = boxes_of_blocks(code, launch)
    if isinstance(boxes, str):
        return False
    assert boxes.sizes.sum() == grid[0] * grid[1]
    np.testing.assert_array_equal(boxes.counts[: len(full)] @ boxes.sizes, full.sum((1, 2)), kernel)
    for (x, y, _), counts in zip(boxes.firsts, boxes.counts[: len(full)].T, strict=True):
        np.testing.assert_array_equal(counts, full[:, y, x], kernel)
    return True


@pytest.mark.quick("sm_80-0", "gfx90a-0")
@THIRDS
def test_boxes_of_blocks_execute_what_each_of_their_blocks_does(target, third):
    kernels = [*compiled(BY_BLOCK, target).items()][third::3]
    assert sum(are_proven(code, (9, 7, 1), kernel) for kernel, code in kernels) > len(kernels) / 3


def test_numbers_of_blocks_in_64_bits_are_proven():
    for kernel, code in compiled(looped(NUMBERS + body for body in WIDE), "sm_90").items():
        assert are_proven(code, (9, 7, 1), kernel)


@pytest.mark.quick("sm_80")
@pytest.mark.parametrize("target", ["sm_80", "gfx90a", "gfx1100"])
@pytest.mark.parametrize("name", [*LOOPS, *UNEVEN])
def test_skipped_trips_count_as_those_that_are_run(target, name):
    kernel = f"loop{[*LOOPS, *UNEVEN].index(name)}"
    skipped, full = (
        ran(LOOPED, kernel, target, (2, 1, 1), 64, None, None, TRIPS, skip=skip) for skip in (True, False)
    )
    assert +skipped.executed == +full.executed
    if not skipped.machine.estimated:
        np.testing.assert_equal(skipped.addresses(), full.addresses())
    elif isinstance(code := compiled(LOOPED, target)[kernel], Code):  # these trips are run if they must be
        launch = LaunchArguments((2, 1, 1), (64, 1, 1), (None, None, TRIPS))
        exact, _ = execute(code, launch, [(0, 0, 0), (1, 0, 0)], exact=True)
        assert not exact.estimated
        assert len(exact.accesses) == len(full.accesses)
    if name in LOOPS:
        assert not skipped.machine.estimated
        assert len(skipped.accesses) < 0.9 * len(full.accesses)


@pytest.mark.quick("gfx90a")
@pytest.mark.parametrize("target", AMD)
def test_what_is_executed_for_a_purpose_is_what_all_instructions_give(target):
    """NVIDIA's instructions are never all executed: the tests above compare them with NumPy."""
    cases = [(code, (None, None, TRIPS)) for code in compiled(LOOPED, target).values()]
    for code, arguments in [*cases, (compiled(CODE, target)["flow"], (X.ravel(), None))]:
        assert isinstance(code, Code)
        launch = LaunchArguments((BLOCKS, 1, 1), (64 if len(arguments) == 3 else THREADS, 1, 1), arguments)
        every, some, globally, control, feeds = (
            ran_code(code_of(code.listing, purpose), launch, [(0, 0, 0), (1, 0, 0)])
            for purpose in (None, *Purpose)
        )
        assert all(made.executed == every.executed for made in (some, globally, control, feeds))
        np.testing.assert_equal(some.addresses(), every.addresses())
        assert len(control.accesses) < len(some.accesses) or not some.accesses
