"""Triton kernels in a Python file: types, arguments, what is tried, and what their decorators say."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dse.errors import DseError
from dse.hardware import gpus
from dse.source.cache import Cache
from dse.source.contract import Failure
from dse.source.launches import Array, Configuration, Descriptor, Unstated, configurations
from dse.source.nvidia.compile.triton import Specialised
from dse.source.nvidia.source import CUDA, source_of
from dse.source.profiles import KernelProfile
from dse.source.readers import Given, load

pytest.importorskip("triton")

FILE = Path(__file__).with_name("triton_kernels.py")
GPU = gpus.load("a100-pcie-40gb").gpu
GATHER = Given(
    grid=("cdiv(rows, BLOCK)",),
    signature=("*fp16", "*fp16", "*i32", "*i32", "i32"),
    arguments=("ids=rows:int32:index // 2", "count=1:int32:8"),
    tuned=(("BLOCK", (128, 256)), ("num_warps", (2, 4))),
    sizes=(("rows", 1000),),
)
TILES = "tensordesc<fp16[BLOCK_M, BLOCK_N]>"
MOVE = Given(
    grid=("cdiv(rows, BLOCK_M)",),
    signature=(f"out={TILES}", f"x={TILES}"),
    arguments=("rows,64", "rows,64"),
    tuned=(("BLOCK_M", (32,)), ("BLOCK_N", (64,))),
    sizes=(("rows", 1024),),
)
ADD = Given(grid=("cdiv(n, BLOCK)",), signature=("*fp32", "*fp32", "i32"), sizes=(("n", 1024),))


def configured(name: str, given: Given) -> tuple[list[dict[str, Any]], list[Configuration]]:
    """Each configuration's parameters, and what it is compiled and launched with."""
    description = load(f"{FILE}:{name}", given)
    columns = description.space.configurations(description.sizes())
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    actual = configurations(description, columns, description.sizes(), GPU)
    return [dict(zip(columns, row, strict=True)) for row in rows], actual


def settings(name: str, given: Given) -> dict[str, Any]:
    """What the first configuration's code depends on."""
    source, first = source_of(load(f"{FILE}:{name}", given)), configured(name, given)[1][0]
    return dict(source.settings(first.defines, first.arguments))


def test_what_is_tried_and_how_it_is_launched():
    rows, actual = configured("gather", GATHER)
    assert [(row["BLOCK"], row["num_warps"]) for row in rows] == [(128, 2), (128, 4), (256, 2), (256, 4)]
    assert {(row["SCALE"], row["num_stages"]) for row in rows} == {(2, 0)}  # 0: as Triton's backend has it
    assert [item.grid[0] for item in actual] == [8, 8, 4, 4]
    ids, count = Array(1000, "int32", "index // 2", ()), Array(1, "int32", "8", ())
    assert actual[0].arguments == (None, None, ids, count, 1000)
    constants = {"BLOCK": 128, "SCALE": 2, "KIND": None, "num_warps": 2, "num_stages": 0, "num_ctas": 1}
    arrays = {"out": "*fp16", "x": "*fp16", "ids": "*i32", "count": "*i32"}
    types = {name: Specialised(kind, True) for name, kind in arrays.items()}
    assert settings("gather", GATHER) == constants | types | {"rows": Specialised("i32", False)}


def test_a_signature_of_all_parameters_holds_constants():
    signature = ("*fp16", "*fp16", "*i32", "*i32", "16", "64", "4", "constexpr")
    actual = settings("gather", replace(GATHER, signature=signature, tuned=(), sizes=(("rows", 1000),)))
    assert (actual["BLOCK"], actual["SCALE"], actual["rows"]) == (64, 4, 16)
    words = replace(GATHER, defines=(("KIND", "negative"), ("SCALE", "tl.float32")))
    assert settings("gather", words)["KIND"] == "negative"
    assert str(settings("gather", words)["SCALE"]) == "fp32"


def test_a_number_of_the_signature_is_known_to_expressions():
    stated = replace(GATHER, signature=(*GATHER.signature[:4], "1000"), sizes=())
    grids = [[item.grid for item in configured("gather", given)[1]] for given in (stated, GATHER)]
    assert grids[0] == grids[1]


def test_a_number_that_is_not_stated():
    arguments = replace(GATHER, grid=("8",), sizes=(), arguments=("ids=8:int32:index", "count=1:int32:8"))
    assert configured("gather", arguments)[1][0].arguments[-1] == Unstated.NUMBER
    assert settings("gather", arguments)["rows"] == Specialised("i32", False)
    typed = replace(arguments, signature=(*GATHER.signature[:4], "i32:16"))
    assert settings("gather", typed)["rows"] == Specialised("i32", True)


def test_types_by_what_is_given_as_arguments():
    arguments = ("8:half", "x=8:bf16", "ids=rows:int32:index", "count=1:int32:8")
    actual = settings("gather", replace(GATHER, signature=(), arguments=arguments))
    assert [actual[name].type for name in ("out", "x", "ids")] == ["*fp16", "*bf16", "*i32"]


def test_a_tensor_descriptor_has_a_shape_and_a_block():
    _, [actual] = configured("move", MOVE)
    assert actual.arguments[0] == Descriptor("fp16", (1024, 64), (64, 1), (32, 64))
    assert settings("move", MOVE)["x"] == ("fp16", (32, 64))


def test_configurations_of_the_decorator_and_what_its_hook_keeps():
    rows, actual = configured("add", ADD)
    assert [(row["BLOCK"], row["num_warps"]) for row in rows] == [(256, 4), (512, 4), (512, 8)]
    assert [item.block[0] for item in actual] == [128, 128, 256]
    assert settings("add", ADD)["EVEN"] is True
    assert settings("add", replace(ADD, sizes=(("n", 1000),)))["EVEN"] is False


@pytest.mark.parametrize(
    ("tuned", "expected"),
    [
        (("BLOCK", (64,)), [(64, 4)]),  # takes the decorator's place
        (("EVEN", (1,)), [(256, 4), (512, 4), (512, 8)]),
        (("num_warps", (2,)), [(256, 2), (512, 2)]),
    ],
)
def test_the_autotuner_s_list_stays_beside_what_it_does_not_tune(tuned, expected):
    rows, _ = configured("add", replace(ADD, tuned=(tuned,)))
    assert [(row["BLOCK"], row["num_warps"]) for row in rows] == expected


def test_a_hook_sees_constants_that_are_stated(tmp_path):
    """As of a call that passes them by place."""
    text = FILE.read_text().replace('named_args["n"]', 'named_args["n"] // (2 * named_args["EVEN"])', 1)
    (tmp_path / "halved.py").write_text(text)
    description = load(f"{tmp_path}/halved.py:add", replace(ADD, tuned=(("EVEN", (2,)),)))
    assert description.space.configurations()["BLOCK"].tolist() == [256]
    assert not description.assumptions


def test_a_wrapper_may_keep_what_it_likes_of_its_kernel(tmp_path):
    """As one that calls the kernel, and remembers the signature of its function, does."""
    entry = "class Entry:\n    def __init__(self, fn):\n        self.fn, self.signature = fn, fn.signature\n"
    text = FILE.read_text().replace("@triton.jit", f"{entry}\n\n@Entry\n@triton.jit", 1)
    (tmp_path / "wrapped.py").write_text(text)
    assert load(f"{tmp_path}/wrapped.py:gather", GATHER).space.size == 4


def test_a_hook_that_fails_is_passed_over_and_that_is_said():
    description = load(f"{FILE}:add", replace(ADD, grid=("8",), sizes=()))
    [said] = description.assumptions
    assert said.startswith("early_config_prune of add is not asked, since it fails: TypeError")
    assert len(description.space.configurations()["BLOCK"]) == 4


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("gather", {"grid": ()}, r"given.grid: found none for .*, expected X\[,Y\[,Z\]\] such as"),
        ("gather", {"grid": ("rows // BLOK",)}, r"given.grid: unknown name 'BLOK'.*did you mean BLOCK"),
        ("gather", {"block": (32,)}, r"given.block: found it with .*Triton decides"),
        ("gather", {"tuned": ()}, r"given.constexprs: .*gather: found no value of BLOCK, expected BLOCK=V1"),
        ("gather", {"tuned": (("BLOK", (1,)),)}, r"given.constexprs: found 'BLOK', expected one of BLOCK"),
        ("move", {"signature": ("tensordesc<fp16", TILES, "i32")}, r"given.signature: out: found 'tensor"),
        ("gather", {"signature": ("*fp16",)}, r"given.signature: found 1 types, expected 5: out, x"),
        ("gather", {"signature": ("y=*fp16",)}, r"given.signature: found 'y', expected one of out, x"),
        ("gather", {"signature": ("out=*fp15",)}, r"given.signature: out: found '\*fp15', expected \*TYPE"),
        ("gather", {"signature": ("out=*fp16",)}, r"given.signature: .*gather: found no type of x, expected"),
        ("gather", {"arguments": ("ids=8:int31",)}, r"given.arguments: ids: type: found 'int31', expected"),
        ("gather", {"arguments": ("ids=8:int64:index",)}, r"ids: type: found 'int64', expected int32, as"),
        ("gather", {"arguments": ("index=8",)}, r"given.arguments: found 'index', expected one of out"),
        ("gather", {"arguments": ("1",) * 6}, r"given.arguments: found 6 arguments, expected at most 5"),
        ("move", {"arguments": ("rows,64", "rows")}, r"given.arguments: x: found rows, expected the 2 sizes"),
    ],
)
def test_mistakes(name, changes, message):
    with pytest.raises(DseError, match=message):
        load(f"{FILE}:{name}", replace(MOVE if name == "move" else GATHER, **changes))


def test_an_option_for_triton_with_a_cuda_file(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text('extern "C" __global__ void k() {}')
    with pytest.raises(DseError, match=r"given.signature: found it with .*k.cu, expected it with a Triton"):
        load(path, Given(block=(32,), grid=(1,), signature=("i32",)))


@pytest.mark.slow
def test_arrays_that_decide_are_asked_for(monkeypatch, tmp_path):
    """An array that ends programs, or says where others are read."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))

    def counted(*arguments: str) -> KernelProfile | Failure:
        values = replace(GATHER, arguments=arguments, tuned=(("BLOCK", (128,)), ("num_warps", (2,))))
        source, (wanted,) = source_of(load(f"{FILE}:gather", values)), configured("gather", values)[1]
        [made] = CUDA.characterise_all(source, 80, [wanted], cache=Cache(tmp_path / "cache"), workers=1)
        return made

    ids, count = "ids=rows:int32:index", "count=1:int32:100000"
    assert isinstance(counted(ids, count), KernelProfile)
    reasons = ((ids, "count", "ends or skips work"), (count, "ids", "says where others are read"))
    for left, name, why in reasons:
        failed = counted(left)
        assert isinstance(failed, Failure)
        assert f"gather: {name}: found no contents of the array, which {why}" in failed.message
        assert f"expected {name}=SIZE:int32:VALUES" in failed.message


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["a100-pcie-40gb", "mi300x"])
@pytest.mark.parametrize(
    ("kernel", "types", "array", "code", "said"),
    [
        ("compact", "*fp32,*fp32,*i8", "kept=4096:int8:index % 2", 0, ""),  # `x` shares the masks' memory
        ("pick", "*fp32,*fp32,*fp32", "chosen=4096", 0, "chosen: found no contents of the array, which deci"),
        ("look_up", "*fp32,*fp16,*fp32", "x=4096:float16:random", 0, ""),  # and halves are computed
        (
            "look_up",
            "*fp32,*bf16,*fp32",
            "table=16",
            2,
            "x: found no contents of the array, which says where",
        ),
    ],
)
def test_what_decides_is_asked_for_alike_on_both_vendors(
    kernel, types, array, code, said, gpu, run_dse, own_cache
):
    launch = ("--grid", "1", "--constexpr", "BLOCK=4096", "--num-warps", "4", "--arg", array)
    ran = run_dse("characterise", f"{FILE}:{kernel}", "-g", gpu, "--signature", types, *launch, "--json")
    assert ran.code == code, ran.err
    assert said in ran.err
    assert bool(said) == ("found" in ran.err)


@pytest.mark.slow
def test_a_launch_that_cannot_run_is_counted_with_a_warning(run_dse, own_cache):
    launch = ("--grid", "4", "--constexpr", "BLOCK=2048", "--num-warps", "32")
    stated = ("--signature", "*fp32,*fp32,*fp32", "--arg", "chosen=8192:float32:random")
    ran = run_dse("characterise", f"{FILE}:pick", "-g", "mi300x", *stated, *launch)
    assert ran.code == 0
    assert "pick: launch: found too many threads in a block, expected a launch that AMD" in ran.err


def test_what_heuristics_decide_is_known_to_the_grid_and_as_options(tmp_path):
    (tmp_path / "k.py").write_text(
        "import triton\nimport triton.language as tl\n"
        '@triton.heuristics({"BLOCK": lambda args: 64 if args["bias"] is None else 32,\n'
        '                    "num_warps": lambda args: args["BLOCK"] // 32})\n'
        "@triton.jit\n"
        "def fill(x, n, bias, BLOCK: tl.constexpr):\n"
        "    tl.store(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), 1.0)\n"
    )
    given = Given(grid=("cdiv(n, BLOCK)",), signature=("x=*fp32", "n=i32", "bias=None"), sizes=(("n", 640),))
    for signature, block in ((given.signature, 64), (("x=*fp32", "n=i32", "bias=*fp32"), 32)):
        description = load(f"{tmp_path / 'k.py'}:fill", replace(given, signature=signature))
        [actual] = configurations(description, description.space.configurations(), description.sizes(), GPU)
        assert (actual.grid[0], actual.block[0]) == (640 // block, block)


INDUCTOR = """
from torch._inductor.async_compile import AsyncCompile

async_compile = AsyncCompile()
rows = async_compile.triton('triton_', '''
import triton
import triton.language as tl
from triton.compiler.compiler import AttrsDescriptor
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math
from torch._inductor.runtime.hints import DeviceProperties, ReductionHint
triton_helpers.set_driver_to_gpu()

@triton.jit
def _triton_helper_fn_add0(a, b):
    return a + b

@triton_heuristics.persistent_reduction(
    size_hints={"x": 256, "r0_": 64},
    reduction_hint=ReductionHint.INNER,
    triton_meta={"signature": {"x": "*fp32", "out": "*fp32", "xnumel": "constexpr", "XBLOCK": "constexpr"},
                 "device": DeviceProperties(type="cuda"), "constants": {"xnumel": 256},
                 "configs": [AttrsDescriptor.from_dict({})]},
)
@triton.jit
def triton_(x, out, xnumel, XBLOCK: tl.constexpr):
    rows = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    columns = tl.arange(0, 64)[None, :]
    value = tl.load(x + rows * 64 + columns)
    value, = tl.associative_scan((value,), 1, _triton_helper_fn_add0)
    zero = tl.zeros_like(value)
    mean, m2, weight = triton_helpers.welford_reduce(value, zero, zero, zero, False)
    mean, m2, weight = triton_helpers.welford(mean, m2, weight, 1)
    top, total = triton_helpers.online_softmax_combine(value, zero, zero, True)
    top, total = triton_helpers.online_softmax_reduce(top, total, 1, False)
    largest, at = triton_helpers.max_with_index(value, tl.broadcast_to(columns, value.shape), 1)
    least, at_least = triton_helpers.min_with_index(value, tl.broadcast_to(columns, value.shape), 1)
    chosen = triton_helpers.select_one(value, columns == 3, 1)
    some = triton_helpers.any(value > 1, 1) & (triton_helpers.prod(value, 1) > 0)
    whole = triton_helpers.div_floor_integer(at, 3) + triton_helpers.remainder_integer(at_least, 3)
    value, at = triton_helpers.sort_with_index(value, at[:, None], 60, 1, stable=True, descending=True)
    top, total = triton_helpers.online_softmax_combine_with_sum(top, total, largest, chosen, True)
    at = tl.min(at, 1) + triton_helpers.pow_integer(at_least, at_least)
    share, power = triton_helpers.frexp(total)
    total += share + triton_helpers.rand4x(7, tl.arange(0, XBLOCK), XBLOCK).to(tl.float32) + power
    whole += triton_helpers.randint64(7, at, at * 0, at * 0 + 9).to(tl.int32)
    mean = triton_helpers.device_assert_then(mean == mean, "NaN", mean + m2 + weight + top + total)
    ends = triton_helpers.max2(value, 1) - triton_helpers.min2(value, 1) + largest - least + chosen
    result = tl.where(some, mean, ends + whole) + triton_helpers.promote_to_tensor(tl_math.exp(ends))
    tl.store(out + rows, libdevice.rsqrt(result)[:, None])
''', device_str='cuda')
fill = async_compile.triton('triton_', '''
import triton
import triton.language as tl
from torch._inductor import triton_helpers
from torch._inductor.triton_heuristics import template

@template(num_stages=1, num_warps=2, meta={"signature": {0: "*fp32", 1: "*fp32", 2: "*u32"}})
@triton.jit
def triton_(table, out, semaphores):
    FACTOR: tl.constexpr = triton_helpers.constexpr_next_power_of_2(tl.constexpr(3))
    triton_helpers.x_grid_barrier(semaphores)
    tl.store(out, tl.load(table))
    tl.store(out + tl.program_id(0) * 64 + tl.arange(0, 64), triton_helpers.maximum(tl.program_id(0), 2))
''')
cat = async_compile.triton('triton_', '''
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics

@triton_heuristics.pointwise(
    triton_meta={"signature": {"a": "*fp32", "b": "*fp32", "out": "*fp32"}, "constants": {}}
)
@triton.jit
def triton_(a, b, out, XBLOCK: tl.constexpr):
    at = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    row, column = at // 1024, at % 1024
    left = tl.load(a + row * 256 + column, column < 256, other=triton_helpers.if_mask(column < 256, 0.0))
    right = tl.load(b + row * 768 + column - 256, column >= 256, other=0.0)
    tl.store(out + at, tl.where(column < 256, left, right))
''', device_str='cuda')
scan = async_compile.triton('triton_', '''
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics

@triton.jit
def add(a, b):
    return a + b

@triton_heuristics.split_scan(
    triton_meta={"signature": {"x": "*fp32", "out": "*fp32", "ws": "*u64", "edges": "*fp32"}, "constants": {}}
)
@triton.jit
def triton_(x, out, ws, edges):
    at = tl.program_id(0) * 256 + tl.arange(0, 256)
    value = tl.load(x + at)
    total = tl.reduce(value, 0, add)
    before = triton_helpers.exclusive_scan_decoupled_lookback(
        ws, total, tl.program_id(0), add, DTYPE_VALUE_AS_UINT=tl.uint32, DTYPE_PACK=tl.uint64
    )
    bin = triton_helpers.bucketize_binary_search(
        value, edges, 7, 7, 1, 0, tl.int32, False, None, None, None
    )
    tl.store(out + at, before + tl.associative_scan(value, 0, add) + bin)
''', device_str='cuda')
del async_compile
"""


@pytest.mark.parametrize("gpu", ["a100-pcie-40gb", "mi300x"])
def test_kernels_as_inductor_writes_them(gpu, run_dse, own_cache, tmp_path):
    (tmp_path / "output_code.py").write_text(INDUCTOR)
    ran = run_dse("rank", tmp_path / "output_code.py", "-g", gpu, "--grid", "1")
    assert "expected one of rows, fill, cat, scan" in ran.err
    fill = ("characterise", f"{tmp_path / 'output_code.py'}:fill", "-g", gpu, "--grid", "256")
    assert "semaphores: found no contents of the array, which ends or skips work" in run_dse(*fill).err
    (tmp_path / "edited.py").write_text(INDUCTOR.replace('2: "*u32"', '7: "*u32"'))
    edited = run_dse("rank", f"{tmp_path / 'edited.py'}:fill", "-g", gpu, "--grid", "1")
    assert edited.err.endswith("signature: found a type of parameter 7, expected 0 to 2\n")
    rows = (
        "characterise",
        f"{tmp_path / 'output_code.py'}:rows",
        "-g",
        gpu,
        "--grid",
        "cdiv(xnumel, XBLOCK)",
    )
    cat = ("characterise", f"{tmp_path / 'output_code.py'}:cat", "-g", gpu, "--grid", "2048")
    scan = ("characterise", f"{tmp_path / 'output_code.py'}:scan", "-g", gpu, "--grid", "1024")
    done = ("--arg", "ws=1024:uint64:2", "--arg", "x=2**18:float:random", "--arg", "edges=7:float:index/8")
    for command, warps, sectors in (
        ((*rows, "--constexpr", "XBLOCK=4"), 64 * 4, 256 * 65 * 4 / 32),
        ((*fill, "--arg", "semaphores=1:uint32:0"), 256 * 2, 256 * 64 * 4 / 32),
        ((*cat, "--constexpr", "XBLOCK=256"), 2048 * 4, 2 * 2048 * 256 * 4 / 32),
        ((*scan, *done), 1024 * 4, 2 * 1024 * 256 * 4 / 32 + 1024 * 8 / 32),
    ):
        ran = run_dse(*command, "--json")
        assert ran.code == 0, ran.err
        assert "hides" not in ran.err
        counts = {row["name"]: row["source"] for row in json.loads(ran.out) if row["part"] == "global"}
        # The words of a scan are read and replaced, by several blocks at a time.
        assert counts["dram"] * warps == pytest.approx(sectors, rel=0.02)


CONSTANTS = {"-inf": float("-inf"), "1e30": 1e30, "None": None, ".cg": ".cg", "": "", "tl.bfloat16": "bf16"}


@pytest.mark.parametrize(("text", "value"), CONSTANTS.items())
def test_constants_that_are_no_parameters(text, value):
    actual = settings("gather", replace(GATHER, defines=(("KIND", text),)))["KIND"]
    assert (actual if value is None or not hasattr(actual, "name") else actual.name) == value


def test_true_is_no_number():
    arguments = replace(GATHER, tuned=(("BLOCK", (128,)), ("SCALE", (True, False))))
    rows, actual = configured("gather", arguments)
    assert [row["SCALE"] for row in rows] == [1, 0]
    source = source_of(load(f"{FILE}:gather", arguments))
    assert [dict(source.settings(item.defines, item.arguments))["SCALE"] for item in actual] == [True, False]
    assert settings("gather", arguments)["SCALE"] is True
    number = replace(arguments, tuned=(("BLOCK", (128,)), ("SCALE", (1,))))
    assert settings("gather", number)["SCALE"] is not True
