"""Speed of reading kernels from source: `bench/source.py [--configurations 16] [--only AMD] [--json]`.

CPU seconds of compiling and executing configurations of `convolution` (unrolled) and of a kernel whose loop
has 1,536 trips (`dedispersion`), for an NVIDIA and an AMD GPU, and of Triton kernels (set an empty
TRITON_CACHE_DIR, else cached code is used); wall seconds of compiling with 1 process and with all processors,
of reading 4,000 configurations from the cache, and of the phase model over a million characterised ones.
`--page docs/amd.md` writes the CPU seconds there.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import equinox as eqx
import front
import jax
import jax.numpy as jnp
import numpy as np
from front import timed

from dse import kernels
from dse.accuracy import markdown
from dse.core.cluster import processors
from dse.core.files import fill
from dse.core.parallel import collect_seldom
from dse.evaluate.rank import configurations as valid
from dse.hardware import gpus, occupancy
from dse.models.phase import predict
from dse.report.show import show
from dse.source.amd import source as amd
from dse.source.amd.compile.source import Built
from dse.source.cache import Cache
from dse.source.kernel import stack_profiles
from dse.source.launches import configurations
from dse.source.nvidia.arguments import as_launched
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.nvrtc import compiler
from dse.source.nvidia.profiled import executed as execute
from dse.source.nvidia.sass.disassemble import disassemble
from dse.source.nvidia.source import CUDA, source_of
from dse.source.toolchain import toolchain

GPU = "a100-pcie-40gb"
AMD_GPU = "mi250x"
ARCH = 80
TRITON = ("triton_matmul", "triton_softmax", "triton_layer_norm", "triton_attention", "triton_moe")
MILLION = 1 << 20


def all_of_it() -> float:
    """Return CPU seconds of this process and of its ended children: Triton assembles in another process."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def executed(kernel: str, number: int, name: str = GPU) -> dict[str, float]:
    """Measure CPU seconds of a configuration: mean of `number`, and the slowest.

    Compilers may be other processes.
    """
    description, gpu = kernels.load(kernel), jax.tree.map(np.asarray, gpus.load(name).gpu)
    parameters, tools = valid(description, None, number), toolchain(gpu)
    if "use_shmem" in parameters and name == GPU:
        description = replace(description, space=description.space.with_values({"use_shmem": (1,)}))
        parameters = valid(description, None, number)
    source, compiling, executing = tools.source_of(description), [], []
    architecture = tools.architecture(gpu, source)
    for configuration in configurations(description, parameters, description.sizes(), gpu):
        settings = source.settings(configuration.defines, configuration.arguments)
        seconds, outcome = timed(partial(source.compile, architecture, settings), all_of_it)
        compiling.append(seconds)
        if isinstance(outcome, Compiled):
            (listing,) = disassemble([outcome.binary])
            work = partial(execute, outcome, listing, as_launched(outcome, configuration), gpu)
        elif isinstance(outcome, Built):
            work = partial(amd.completed, outcome, configuration, gpu, source)
        else:
            continue
        executing.append(timed(work, all_of_it)[0])
    return {
        "configurations": len(executing),
        "compile [CPU s]": float(np.mean(compiling)),
        "execute [CPU s]": float(np.mean(executing)),
        "slowest [CPU s]": float(np.max(executing)),
    }


def compiling(number: int) -> dict[str, float]:
    """Measure wall seconds of compiling with one process and with all processors."""
    description, gpu = kernels.load("convolution"), gpus.load(GPU).gpu
    parameters = valid(description, None, number)
    space = configurations(description, parameters, description.sizes(), gpu)
    durations = {}
    for workers in sorted({1, processors()}):
        with tempfile.TemporaryDirectory() as folder:
            cache = Cache(Path(folder, "cache.sqlite"))
            work = partial(CUDA.characterise_all, source_of(description), ARCH, space, None, cache, workers)
            durations[f"{workers} processes [s]"] = timed(work, time.perf_counter)[0]
    return {"configurations": number, **durations}


def again() -> dict[str, float]:
    """Measure wall seconds from 4,000 cached configurations to the arrays of models."""
    description, gpu = kernels.load("transpose"), gpus.load(GPU).gpu
    space = []
    for width in range(256, 256 + 32 * 120, 32):  # thousands of launches of few programs
        sizes = description.sizes(width=width)
        space += configurations(description, valid(description, {"width": width}), sizes, gpu)
    space, source = space[:4_000], source_of(description)
    with tempfile.TemporaryDirectory() as folder:
        cache = Cache(Path(folder, "cache.sqlite"))
        CUDA.characterise_all(source, ARCH, space, gpu, cache)
        seconds, _ = timed(
            lambda: stack_profiles(CUDA.characterise_all(source, ARCH, space, gpu, cache)),
            time.perf_counter,
        )
    return {"configurations": len(space), "from the cache [s]": seconds}


def predicting(number: int) -> dict[str, float]:
    """Measure wall seconds of the phase model over a million launches: compiled, float32, all cores."""
    description, gpu = kernels.load("transpose"), gpus.load(GPU).gpu
    parameters = valid(description, None, number)
    space = configurations(description, parameters, description.sizes(), gpu)
    kernel, resources = stack_profiles(CUDA.characterise_all(source_of(description), ARCH, space, gpu))
    index = np.arange(MILLION) % len(space)
    kernel = jax.tree.map(lambda x: jnp.asarray(np.broadcast_to(x, len(space))[index], jnp.float32), kernel)
    resources = jax.tree.map(lambda x: jnp.asarray(np.broadcast_to(x, len(space))[index]), resources)

    @eqx.filter_jit
    def seconds(gpu, kernel, resources):
        launch, _ = occupancy.launch(gpu, resources)
        return predict(gpu, kernel, launch).seconds

    seconds(gpu, kernel, resources).block_until_ready()
    runs = [
        timed(lambda: seconds(gpu, kernel, resources).block_until_ready(), time.perf_counter)[0]
        for _ in range(3)
    ]
    return {"configurations": MILLION, "phases": len(kernel.phases), "phase model [s]": min(runs)}


def parts(number: int) -> dict[str, Callable[[], dict[str, float]]]:
    """Return the measurements by title."""
    few = max(2, number // 4)
    return {
        "convolution": partial(executed, "convolution", number),
        "dedispersion": partial(executed, "dedispersion", few),
        **{name: partial(executed, name, few) for name in TRITON},
        "convolution on AMD": partial(executed, "convolution", number, AMD_GPU),
        "dedispersion on AMD": partial(executed, "dedispersion", few, AMD_GPU),
        "triton_attention on AMD": partial(executed, "triton_attention", 2, AMD_GPU),
        "compiling": partial(compiling, number),
        "again": again,
        "phase model": partial(predicting, 64),
    }


def main() -> None:
    parser = front.parser(__doc__)
    parser.add_argument("--configurations", type=int, default=16, help="of convolution and dedispersion")
    parser.add_argument("--only", default="", metavar="TEXT", help="parts whose title contains this")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write CPU seconds between its markers")
    options = parser.parse_args()
    collect_seldom()  # as in the processes that execute configurations
    results = {
        title: work() for title, work in parts(options.configurations).items() if options.only in title
    }
    if options.json:
        print(json.dumps(results | {"compiler": compiler(), "processors": os.cpu_count()}))
    elif options.page:
        rows = {title: row for title, row in results.items() if "execute [CPU s]" in row}
        columns = list(next(iter(rows.values())))
        cells = [[title, *(markdown.number(row[name]) for name in columns)] for title, row in rows.items()]
        fill(options.page, "seconds", markdown.table(["kernel", *columns], cells))
    else:
        for title, row in results.items():
            show([row], title=title)


if __name__ == "__main__":
    main()
