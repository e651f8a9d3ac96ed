"""Kernels that Triton compiles, for GPUs that need not be here: all are read and multiply what they must."""

import ast
from pathlib import Path

import numpy as np
import pytest

triton = pytest.importorskip("triton")
pytest.importorskip("elftools")

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from dse.source.machine.launch import LaunchArguments, TensorMap  # noqa: E402
from dse.source.nvidia.profile.characterise import characterise, prepare  # noqa: E402
from dse.source.nvidia.sass import elf  # noqa: E402
from dse.source.nvidia.sass.disassemble import disassemble  # noqa: E402
from dse.source.profile.average_warp import warp_counts  # noqa: E402
from dse.source.profile.characterise import Characterisation  # noqa: E402
from dse.source.warps import to_kernel  # noqa: E402

M, N, K = 512, 256, 2048


@pytest.fixture(scope="module", autouse=True)
def _compiled_files_go_nowhere_else(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        patch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # Triton 3.9 warns where it is not set
        yield


def compiled(function, arch: int, types: dict, constants: dict, warps: int, stages: int):
    signature = {**types, **dict.fromkeys(constants, "constexpr")}
    names = list(signature)
    aligned = [name for name, of in types.items() if not of.startswith(("tensordesc", "fp"))]
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in aligned}
    source = ASTSource(function, signature, constants, attributes)
    options = {"num_warps": warps, "num_stages": stages}
    return triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)


def launched(kernel, grid: tuple[int, int, int], arguments: list) -> Characterisation:
    (binary,) = elf.read(kernel.asm["cubin"], "a cubin").values()
    (listing,) = disassemble([binary])
    count = len(binary.parameters)
    launch = LaunchArguments(
        grid,
        (32 * kernel.metadata.num_warps, 1, 1),
        (arguments + [None] * count)[:count],
        [parameter.offset for parameter in binary.parameters],
        binary.banks,
    )
    return characterise(prepare(listing), launch)


def work(counts: Characterisation) -> dict[str, float]:
    of_warp = vars(to_kernel(warp_counts(counts)).work)
    return {name: units * counts.warps * counts.blocks for name, units in of_warp.items()}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """Triton reads a kernel's source from its file."""
    import importlib.util

    path = Path(__file__).with_name("triton_kernels.py")
    specification = importlib.util.spec_from_file_location("triton_kernels", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


# The kind of its multiply-adds, and whether operands come out of registers.
POINTERS = [
    (80, "bf16", 4, "mma_fp16", True),
    (89, "fp8e4nv", 3, "mma_fp8", True),
    (90, "i8", 4, "mma_int8", False),
    (100, "fp16", 2, "mma_fp16", False),
    (120, "fp32", 3, "mma_tf32", True),
]


@pytest.mark.parametrize(("arch", "of", "stages", "kind", "from_registers"), POINTERS)
def test_products_by_pointers(kernels, arch, of, stages, kind, from_registers):
    block = {"BM": 64, "BN": 64, "BK": 64}
    types = {"a": f"*{of}", "b": f"*{of}", "c": "*i32" if of == "i8" else "*fp32"}
    types |= {"m": "i32", "n": "i32", "k": "i32"}
    kernel = compiled(kernels.by_pointers, arch, types, block, 4, stages)
    counts = launched(kernel, (M // 64 * N // 64, 1, 1), [None, None, None, M, N, K])
    done = work(counts)
    assert done[kind] == M * N * K
    assert sum(done[name] for name in done if name.startswith("mma") and name != "mma_warp") == done[kind]
    assert (done["mma_warp"] > 0) == from_registers
    size = {"i8": 1, "fp8e4nv": 1, "fp32": 4}.get(of, 2)
    loaded = counts.blocks * counts.total("global load", "bytes")
    assert loaded == (M * K * N // 64 + N * K * M // 64) * size
    assert counts.unknown == ()


@pytest.mark.parametrize(("arch", "own_warps"), [(90, False), (100, True), (120, True)])
def test_products_by_boxes(kernels, arch, own_warps):
    types = {"a": "tensordesc<fp16[128,64]>", "b": "tensordesc<fp16[64,64]>", "c": "tensordesc<fp16[128,64]>"}
    block = {"BM": 128, "BN": 64, "BK": 64, "OWN_WARPS": own_warps}
    kernel = compiled(kernels.by_boxes, arch, types | {"n": "i32", "k": "i32"}, block, 4, 3)
    boxes = ast.literal_eval(str(kernel.metadata.tensordesc_meta))
    arguments = []
    for shape, box in zip(((M, K), (K, N), (M, N)), boxes, strict=True):
        strides = (shape[1], 1)
        arguments += [TensorMap(2, shape, strides, tuple(box["block_size"])), *shape, *map(np.int64, strides)]
    counts = launched(kernel, (M // 128 * N // 64, 1, 1), [*arguments, N, K])
    assert work(counts)["mma_fp16"] == M * N * K
    loaded = counts.blocks * counts.total("global load", "bytes")
    assert loaded == (M * K * N // 64 + N * K * M // 128) * 2
    assert counts.blocks * counts.total("global store", "bytes") == M * N * 2
    assert counts.unknown == ()
