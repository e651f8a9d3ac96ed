"""The average warp as models take it, against counts made by hand."""

from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest
from support.sass_code import bound, characterise, listing_of

from dse.errors import DseError
from dse.hardware import gpus
from dse.source.caches.cache_model import Traffic
from dse.source.machine.launch import LaunchArguments
from dse.source.nvidia.profile.walk import timing
from dse.source.profile.average_warp import warp_counts
from dse.source.profile.characterise import Characterisation
from dse.source.warps import NOTHING, column_names, row, stacked, to_kernel
from dse.types import Kernel


@cache
def a100():
    gpu = gpus.load("a100-pcie-40gb").gpu
    return jax.tree.map(lambda x: np.asarray(x, float) if x.dtype.kind == "f" else x, gpu)


def found(kernel: str, *arguments, grid=(4, 1, 1), block=(256, 1, 1)) -> Characterisation:
    return characterise(bound(kernel), LaunchArguments(grid, block, arguments), times=timing(a100()))


def counted(*code: str, **options) -> Characterisation:
    return characterise(listing_of(*code), LaunchArguments((1, 1, 1), (32, 1, 1)), **options)


def one(kernel: str, *arguments, **shape) -> Kernel:
    return to_kernel(warp_counts(found(kernel, *arguments, **shape)))


def test_stack_profiles():
    kernel = one("transpose_conflicts", None, None, 512, grid=(16, 16, 1), block=(32, 8, 1))
    counts = {"load_insts": 4, "store_insts": 4, "shared_insts": 8, "sectors": 32, "bytes_per_access": 128}
    counts |= {"uncoal_insts": 0, "mlp": 4}
    assert {name: float(getattr(kernel, name)) for name in counts} == counts
    work = {"shared": 4 + 4 * 32, "barrier": 1, "l1": 8, "l2": 32, "dram": 32}
    assert {name: float(getattr(kernel.work, name)) for name in work} == work
    assert float(kernel.other_insts) > 0


def test_every_number_of_a_row_has_a_name():
    one = warp_counts(found("transpose_conflicts", None, None, 512, grid=(16, 16, 1), block=(32, 8, 1)))
    names = column_names(2)
    assert len(set(names)) == len(names) == len(one)
    column, kernel = dict(zip(names, one, strict=True)), to_kernel(one)
    assert column["work.shared"] == kernel.work.shared == 4 + 4 * 32
    assert column["phases.1.waits.l1"] == kernel.phases[1].waits.l1
    assert column["phases.1.passes"] == kernel.phases[1].passes == 1
    np.testing.assert_array_equal(row(column, 2), one)
    several = stacked([NOTHING, stacked([one, NOTHING])])
    assert to_kernel(several).work.shared.shape == (3,)
    np.testing.assert_array_equal(several[1], one)
    np.testing.assert_array_equal(several[0], several[2])


def test_spilled_words_are_waited_for_where_they_come_from():
    result = counted("LDL R0, [R1]", "FADD R2, R0, R0", "EXIT", times=timing(a100(), 400.0))
    walk = result.phases[0].walk
    assert walk is not None
    assert walk.cycles > 400
    phase = replace(result.phases[0], traffic=Traffic(loads=4.0, loads_past_l1=4.0, loads_past_l2=1.0))
    waits = to_kernel(warp_counts(replace(result, phases=(phase,)))).phases[0].waits
    assert (float(waits.l1), float(waits.l2), float(waits.dram)) == (0.0, 0.75, 0.25)


def test_textures_are_not_silently_left_out():
    result = counted("TEX R0, R4, 0x0", "EXIT")
    with pytest.raises(DseError, match="toy: found texture instructions"):
        warp_counts(result)


def test_shuffles_go_through_the_pipe_of_shared_memory():
    kernel = one("warp_wide", np.zeros(4096, np.int32))
    assert float(kernel.work.shared) == float(kernel.shared_insts) == 3
