"""What more buffers gain by the phase model and in the simulator: where latency binds, not where tensor cores
do.
"""

import jax
import jax.numpy as jnp
import pytest
from support.sass_code import compiled

from dse.hardware import gpus, occupancy
from dse.hardware.tensor import HEAT
from dse.models import phase
from dse.simulator import simulate
from dse.source.kernel import stack_profiles
from dse.source.launches import Configuration
from dse.source.machine.launch import LaunchArguments
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.execute.interpret import run
from dse.source.nvidia.graphs.dependence import dependence_graph
from dse.source.nvidia.graphs.graph_text import Hits, of_source
from dse.source.nvidia.profile.characterise import prepare
from dse.source.nvidia.profiled import executed
from dse.source.nvidia.sass.disassemble import disassemble, with_lines
from dse.source.profiles import KernelProfile
from dse.types import Gpu, Prediction

TRIPS = 256
BUFFERED = """extern "C" __global__ void k(const uint4* x, float* y, int trips)
{
    __shared__ uint4 tile[BUFFERS][128];
    unsigned at = (unsigned)__cvta_generic_to_shared(&tile[0][threadIdx.x]);
    x += blockIdx.x * 128 * trips + threadIdx.x;
    int from = 0, to = 0;
    auto copy = [&] {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at + to * 2048), "l"(x) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
        to = to + 1 == BUFFERS ? 0 : to + 1;
        x += 128;
    };
    for (int i = 0; i < BUFFERS - 1; ++i) copy();
    float sum[4][4] = {};
#pragma unroll 1
    for (int i = 0; i < trips; ++i) {
        copy();
        asm volatile("cp.async.wait_group %0;" ::"n"(BUFFERS - 1) : "memory");
        __syncthreads();
        uint4 a = tile[from][threadIdx.x ^ 1];
        from = from + 1 == BUFFERS ? 0 : from + 1;
#pragma unroll
        for (int j = 0; j < PRODUCTS; ++j)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                         "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%4, %5}, {%0, %1, %2, %3};"
                         : "+f"(sum[j % 4][0]), "+f"(sum[j % 4][1]), "+f"(sum[j % 4][2]), "+f"(sum[j % 4][3])
                         : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w));
        __syncthreads();
    }
    y += blockIdx.x * 128 + threadIdx.x;
    for (int j = 0; j < 4; ++j) *y += sum[j][0] + sum[j][1] + sum[j][2] + sum[j][3];
}
"""


@pytest.fixture(scope="module")
def a100() -> Gpu:
    return gpus.load("a100-pcie-40gb").gpu


def buffered(buffers: int, products: int) -> Compiled:
    return compiled(BUFFERED, BUFFERS=buffers, PRODUCTS=products)


@pytest.fixture(scope="module")
def profiled(a100):
    def profile(buffers: int, products: int) -> KernelProfile:
        made, blocks = buffered(buffers, products), int(a100.sm_count)
        launch = Configuration((), (blocks, 1, 1), (128, 1, 1), (None, None, TRIPS))
        return executed(made, disassemble([made.binary])[0], launch, a100)

    return profile


@pytest.fixture(scope="module")
def simulated(a100):
    """Cycles a trip of one block alone."""

    def cycles(buffers: int, products: int, slots: int = 1) -> float:
        launch = LaunchArguments((1, 1, 1), (128, 1, 1), [None, None, TRIPS])
        listing = with_lines(buffered(buffers, products).cubin, "k", "k.cu")
        graph = dependence_graph(run(prepare(listing), launch, [(0, 0, 0)]), 0, 0)
        case = of_source(graph, a100, Hits(0, 0.9), warps=4, slots=slots).case
        return float(simulate([case]).makespan[0]) / TRIPS

    return cycles


def predicted(profile: KernelProfile, gpu: Gpu) -> Prediction:
    kernel, resources = stack_profiles([profile])
    kernel = jax.tree.map(lambda x: jnp.asarray(x, gpu.clock.dtype), kernel)
    return phase.predict(gpu, kernel, occupancy.launch(gpu, resources)[0])


def bottleneck(prediction: Prediction) -> str:
    return list(prediction.terms)[int(prediction.bottleneck[0])]


def test_products_are_counted(profiled):
    work = profiled(2, 4).warp.work
    assert work.mma_fp16 == TRIPS * 4 * 16 * 8 * 16
    assert work.mma_warp == TRIPS * 4


@pytest.mark.slow
def test_more_buffers_gain_where_latency_binds_but_not_where_tensor_cores_do(profiled, a100):
    actual = {buffers: predicted(profiled(buffers, 4), a100) for buffers in (1, 2, 3)}
    cycles = {buffers: float(prediction.cycles[0]) for buffers, prediction in actual.items()}
    assert [bottleneck(prediction) for prediction in actual.values()] == ["copies"] * 3
    assert cycles[2] == pytest.approx(cycles[1] / 2, rel=0.1)
    assert cycles[3] < 0.75 * cycles[2]
    floor = TRIPS * 128 * 4 * 2048 * float(a100.cpi.mma_fp16) * (1.0 + HEAT)  # of four warps' products
    two, three = (float(predicted(profiled(buffers, 128), a100).cycles[0]) for buffers in (2, 3))
    assert floor <= two == pytest.approx(floor, rel=0.3)
    assert three == pytest.approx(two, rel=0.02)


@pytest.mark.slow
def test_so_it_is_in_the_simulator(simulated, a100):
    """Of b buffers, the copy into one begins when what it held is worked off, b trips before it is used
    again: b trips take the latency and one trip's work.
    """
    times = {buffers: simulated(buffers, 4) for buffers in (1, 2, 3)}
    work = times[1] - float(0.9 * a100.latency.l2 + 0.1 * a100.latency.dram)
    assert times[2] == pytest.approx(times[1] / 2, rel=0.05)
    assert times[1] / 3 < times[3] < 0.8 * times[2]
    assert 0 < work < times[3]  # which no buffers hide
    two, three = (simulated(buffers, 128, slots=4) / 4 for buffers in (2, 3))  # of four blocks
    assert two == pytest.approx(128 * 4 * 2048 * float(a100.cpi.mma_fp16), rel=0.3)
    assert three == pytest.approx(two, rel=0.02)
