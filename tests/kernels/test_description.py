"""A described kernel against plain Python: one configuration at a time, sums written out."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from dse.core.space.expression import parse
from dse.core.space.space import Space
from dse.errors import DseError
from dse.kernels.description import Access, Description, check, describe
from dse.types import Gpu, Limits, PerClass

VALUES = {"bx": [16, 32, 48], "by": [1, 2, 4], "tile": [1, 2, 3], "staged": [0, 1]}


def expressions(**texts):
    return tuple((name, parse(text, f"test: {name}")) for name, text in texts.items())


def access(name, space, op, **fields):
    return Access(name, space, op, expressions(**fields))


HALO = expressions(
    count="warps + registers / 100",
    bytes="4 * tile",
    sectors="5",
    passes="3",
    l2_sectors="loads * 5 / (1 + l1_bytes / 1000)",
    dram_sectors="min(1, sm_count / 100)",
    uncoalesced="by == 1",
)


def make(**changes):
    kernel = Description(
        name="stencil",
        summary="made up",
        path=Path("stencil/kernel.toml"),
        source=None,
        variant_of="stencil",
        space=Space(VALUES, (parse("bx * by <= 128", "test"),)),
        problem=(("width", 1000), ("radius", 3)),
        let=expressions(
            wanted="bx * by", columns="bx * tile + 2 * radius", loads="ceil(columns * by / wanted)"
        ),
        launch=expressions(
            threads="bx * by",
            blocks="ceil(width / (bx * tile)) * ceil(width / by)",
            registers="20.5 + 2 * tile",
            shared_bytes="4 * columns * by if staged else 0",
        ),
        warp=expressions(fp32="tile * (2 * radius + 1) ** 2", barrier="staged", ilp="tile", sfu=1),
        accesses=(
            access("stage", "shared", "store", count="loads * staged", passes="1 + tile % 2"),
            access("taps", "shared", "load", count="7 * tile * staged", bytes=8),
            access("flag", "shared", "load", count="by", bytes=1),
            access("image", "global", "load", count="loads", sectors="2 + 8 * tile", l2_sectors="tile"),
            Access("halo", "global", "load", HALO),
            access("result", "global", "store", count="tile", bytes=2),
        ),
    )
    return dataclasses.replace(kernel, **changes)


def gpu(warp_size=(32, 64), l1_bytes=(128e3, 16e3), sm_count=(108.0, 60.0)):
    """GPUs on axis 0; only what expressions may ask for matters."""

    def column(values):
        return np.asarray(values).reshape(-1, 1)

    limits = dict.fromkeys(Limits.__dataclass_fields__, 1)
    per_class = PerClass(**dict.fromkeys(PerClass.__dataclass_fields__, 1.0))
    rest: dict[str, Any] = dict.fromkeys(Gpu.__dataclass_fields__, 1.0)
    return Gpu(
        **rest
        | {
            "cpi": per_class,
            "latency": per_class,
            "l1_bytes": column(l1_bytes),
            "sm_count": column(sm_count),
            "limits": Limits(**limits | {"warp_size": column(warp_size)}),
        }
    )


def reference(bx, by, tile, staged, width, radius, warp_size, l1_bytes, sm_count):
    """What `make` says, by hand."""
    threads = bx * by
    columns = bx * tile + 2 * radius
    loads = -(-columns * by // threads)
    registers = math.ceil(20.5 + 2 * tile)
    warps = -(-threads // warp_size)
    halo = warps + registers / 100
    halo_l2 = loads * 5 / (1 + l1_bytes / 1000)
    wide = 2 + 8 * tile > 2 * warp_size * 4 / 32  # the image is uncoalesced by its sectors
    uncoal = loads * wide + halo * (by == 1)
    uncoal_sectors = loads * (2 + 8 * tile) * wide + halo * 5 * (by == 1)
    line = warp_size * 2 / 32  # sectors of the result
    mem = loads + halo + tile
    work = {
        "fp32": tile * (2 * radius + 1) ** 2,
        "fp64": 0,
        "int32": 0,
        "imul32": 0,
        "sfu": 1,
        "barrier": staged,
        "shared": staged * (loads * (1 + tile % 2) + 7 * tile * warp_size * 8 / 128) + by,
        "l1": loads * (2 + 8 * tile) / 4 + halo * 3 + tile * max(1, line / 4),
        "l2": tile + halo_l2 + tile * line,
        "dram": tile + min(1, sm_count / 100) + tile * line,
    }
    kernel = {
        "shared_insts": staged * (loads + 7 * tile) + by,
        "load_insts": loads + halo,
        "store_insts": tile,
        "uncoal_insts": uncoal,
        "transactions_per_uncoal": uncoal_sectors / uncoal if uncoal else 1,
        "sectors": loads * (2 + 8 * tile) + halo * 5 + tile * line,
        "bytes_per_access": warp_size * (4 * loads + 4 * tile * halo + 2 * tile) / mem,
        "ilp": tile,
        "mlp": 1,
    }
    resources = {
        "threads": threads,
        "blocks": math.ceil(width / (bx * tile)) * math.ceil(width / by),
        "registers": registers,
        "shared_bytes": 4 * columns * by if staged else 0,
    }
    return work, kernel, resources


def row(configurations):
    return {name: np.asarray(values)[None, :] for name, values in configurations.items()}


def test_equals_plain_python():
    description, problem = make(), {"width": 777, "radius": 2}
    configurations = description.space.configurations(problem)
    kernel, resources = describe(description, row(configurations), problem, gpu())
    assert {x.dtype for x in jax.tree.leaves(kernel)} == {np.dtype("float64")}
    assert {x.dtype for x in jax.tree.leaves(resources)} == {np.dtype("int32")}
    for g, of_gpu in enumerate(zip((32, 64), (128e3, 16e3), (108.0, 60.0), strict=True)):
        for i in range(len(configurations["bx"])):
            point = {name: int(values[i]) for name, values in configurations.items()}
            numbers: list[Any] = [*point.values(), *problem.values(), *of_gpu]
            work, counts, needs = reference(*numbers)
            for owner, expected in ((kernel.work, work), (kernel, counts), (resources, needs)):
                for name, value in expected.items():
                    got = np.broadcast_to(getattr(owner, name), (2, len(configurations["bx"])))[g, i]
                    np.testing.assert_allclose(got, value, rtol=1e-12, err_msg=f"{name} at {point}, {of_gpu}")


def test_sizes_are_exact_and_shared_memory_is_declared_but_for_what_the_launch_adds():
    # float32 does not hold 2^24 + 1, int32 not 2^40
    launch = expressions(threads=32, registers=1, blocks="n * n", shared_bytes="m")
    description = make(launch=launch, let=(), warp=(), accesses=(), problem=(("n", 2**20), ("m", 2**24 + 1)))
    point = {"bx": 16, "by": 1, "tile": 1, "staged": 0}
    _, resources = describe(description, point, {}, gpu())
    assert resources.blocks == 2**31 - 1
    assert resources.shared_bytes == 2**24 + 1
    _, resources = describe(description, point, {"m": -(2**40)}, gpu())
    assert resources.shared_bytes == -(2**31)
    launch = {"threads": 32, "registers": 1, "blocks": 1, "shared_bytes": 60_000}
    point = {"bx": 16, "by": 1, "tile": 1, "staged": 0}
    for added, declared in (({}, 60_000), ({"dynamic_shared_bytes": 50_000}, 10_000)):
        description = make(launch=expressions(**launch | added), let=(), warp=(), accesses=())
        _, resources = describe(description, point, {}, gpu())
        assert (resources.shared_bytes, resources.static_shared_bytes) == (60_000, declared)


def test_the_l1_hands_each_thread_its_bytes():
    # 32 (64) threads that load the same 16 bytes get 512 (1024), 128 a pass; scattered ones touch more lines
    alike, apart = (
        access(name, "global", "load", count=1, bytes=16, sectors=sectors)
        for name, sectors in (("alike", "1"), ("apart", "2 * warp_size"))
    )
    point = {"bx": 16, "by": 1, "tile": 1, "staged": 1}
    for loads, passes in ((alike, (4, 8)), (apart, (16, 32))):
        kernel, _ = describe(make(accesses=(loads,)), point, {}, gpu())
        np.testing.assert_array_equal(np.ravel(kernel.work.l1), passes)
    description = make(accesses=(), warp=expressions(fp32=5), launch=make().launch[:3])
    kernel, resources = describe(description, {"bx": 16, "by": 1, "tile": 1, "staged": 1}, {}, gpu())
    assert kernel.mem_insts == kernel.work.shared == kernel.bytes_per_access == 0
    assert kernel.transactions_per_uncoal == kernel.ilp == kernel.mlp == 1
    assert resources.shared_bytes == 0


def test_check_passes_what_is_right():
    check(make(), gpu())
    check(make(), gpu(), sample=5)
    check(make(warp=expressions(fp32="128 - bx * by")), gpu())  # negative only where it is not valid
    space = Space(VALUES, (parse("bx > width", "test"),))
    with pytest.raises(DseError, match="no valid configuration"):
        check(make(space=space), gpu())
    check(make(space=space), gpu(), width=20)


SECTORS = access("a", "global", "load", count="2", sectors="4 - bx")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"warp": expressions(fp32="tile - 2")}, r"warp\.fp32: found -1 at .*tile=1.*, expected 0"),
        ({"warp": expressions(ilp="tile / 2")}, r"warp\.ilp: found 0\.5 at .*tile=1.*, expected 1"),
        ({"warp": expressions(mlp="sm_count / 100")}, r"warp\.mlp: found 0\.6 at bx="),
        ({"warp": expressions(sfu="1 / abs(tile - 2)")}, r"warp\.sfu: found inf at .*tile=2"),
        ({"launch": (*make().launch[:2], *expressions(registers=0))}, r"launch\.registers: found 0 at"),
        ({"accesses": (SECTORS,)}, r"access\.a\.sectors: found -(12|28|44)"),
    ],
)
def test_check_finds_impossible_counts(changes, message):
    with pytest.raises(DseError, match=r"^stencil/kernel\.toml: (" + message + ")"):
        check(make(**changes), gpu())
