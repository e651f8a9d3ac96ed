"""Accuracy lost by compiling few configurations: `estimates.py KERNEL --gpu GPU --measured FILE`.

On a sample of a measured space: the rank correlation of the default model with measured times if all are
compiled, if a chosen few (`--compile`) are, and if as many random ones are; then the relative errors of
single numbers, and of compiled configurations estimated from the other compiled ones.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ending import run_script

import dse
from dse.cli import inputs
from dse.core.precision import in_64_bits
from dse.data import measured
from dse.data.scores import spearman
from dse.errors import DseError
from dse.evaluate.chunks import evaluate_counted
from dse.evaluate.compare import sample as take_sample
from dse.hardware.gpus import GpuFile, stack
from dse.kernels.counts import Counted, Number
from dse.kernels.description import Description, evaluated_names
from dse.models import DEFAULT, get
from dse.report.numbers import json_text
from dse.report.show import show
from dse.source.contract import Failure
from dse.source.estimate.active_sampling import choose
from dse.source.estimate.estimate import Estimate, estimate
from dse.source.estimate.features import known
from dse.source.kernel import SourceKernel, knows_blocks, stack_profiles
from dse.source.launches import configurations
from dse.source.profiles import KernelProfile
from dse.source.toolchain import toolchain
from dse.source.warps import column_names, phases_of, stacked, to_kernel
from dse.types import Gpu, Kernel, Resources


def check(
    path: Path,
    description: Description,
    gpu: GpuFile,
    problem: Mapping[str, Number] | None = None,
    compiled: int = 48,
    sample: int = 300,
    draws: int = 3,
    seed: int = 1,
    plain: bool = False,
) -> dict[str, Any]:
    """Compile a sample of a measured space, and compare with estimates from `compiled` configurations of it.

    The sample has configurations that ran, with the parameters that the kernel's space fixes. `draws` is the
    number of random choices of `compiled` configurations; `plain` leaves out the description's names of
    sizes.

    **Raises:** DseError if the table cannot be read, nothing in it ran, the source cannot be compiled, or
    `compiled` is the whole sample.
    """
    table = measured.load(path, description)
    table = table.rows(take_sample(table, description, sample, seed))
    parameters, sizes = table.parameters, description.sizes(**{**(problem or {}), **table.problem})
    space = configurations(description, parameters, sizes, gpu.gpu)
    source = toolchain(gpu.gpu).source_of(description)
    read = SourceKernel(description, toolchain=toolchain).read(parameters, gpu.gpu, sizes)
    ran = [index for index, profile in enumerate(read) if isinstance(profile, KernelProfile)]
    if compiled >= len(read):
        raise DseError(f"compile: found {compiled}, expected fewer than the {len(read)} of the sample")
    if len(ran) < 2:
        reason = next(profile.message for profile in read if isinstance(profile, Failure))
        raise DseError(f"{description.name}: source: {reason}")
    names = evaluated_names(description, parameters, sizes, gpu.gpu)
    described = {} if plain else {name: names[name] for name, _ in description.let}
    before = known(source, parameters, space, described)

    def ranked(seconds: np.ndarray) -> float | None:
        return spearman(seconds[ran], table.time_s[ran])

    of_all = _seconds(gpu.gpu, *stack_profiles(read))
    begun = time.process_time()
    results: dict[int, KernelProfile | Failure] = {}
    while batch := choose(before, compiled, results):
        results |= {index: read[index] for index in batch}
    blocks_known = knows_blocks(source)
    guess = estimate(before, results, gpu.gpu.limits, blocks_known)
    spent = time.process_time() - begun
    estimated = _estimated_seconds(gpu.gpu, guess)
    at_random = []
    for draw in range(draws):
        drawn = np.random.default_rng(draw).permutation(len(read))[:compiled].tolist()
        of_drawn = estimate(before, {index: read[index] for index in drawn}, gpu.gpu.limits, blocks_known)
        at_random.append(ranked(_estimated_seconds(gpu.gpu, of_drawn)))
    others = np.setdiff1d(ran, list(results))
    left_out = _left_out_seconds(gpu.gpu, guess) / of_all[guess.compiled] - 1.0
    return {
        "kernel": description.name,
        "gpu": gpu.name,
        "sample": len(read),
        "failures": len(read) - len(ran),
        "compiled": len(results),
        "spearman": {"all": ranked(of_all), "chosen": ranked(estimated), "random": at_random},
        "time_off": _summary(np.abs(estimated / of_all - 1.0)[others]),
        "numbers_off": _numbers_off(read, guess, others),
        "left_out_off": {"time": _summary(np.abs(left_out))}
        | {name: _summary(np.abs(errors)) for name, errors in guess.errors().items()},
        "exact_patterns": sorted(guess.exact_patterns),
        "cpu_seconds_per_configuration": spent / len(read),
    }


def rows(checked: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the relative errors of numbers on configurations that were not compiled, without exact ones.

    `left_out` has the errors of compiled configurations, each estimated from the others.
    """
    return [
        {"off": name}
        | errors
        | {f"left_out_{kind}": checked["left_out_off"].get(name, {}).get(kind) for kind in ("median", "p90")}
        for name, errors in {"time": checked["time_off"], **checked["numbers_off"]}.items()
        if errors["max"] > 1e-3
    ]


def _seconds(gpu: Gpu, kernel: Kernel, resources: Resources) -> np.ndarray:
    """Predict seconds with the default model, [L]."""
    count, gpus = len(resources.threads), stack([gpu])
    batch = Counted.known(kernel, resources, count).batch
    return evaluate_counted(batch, count, "", [get(DEFAULT)], gpus).forecasts[DEFAULT].seconds[0]


def _estimated_seconds(gpu: Gpu, guess: Estimate) -> np.ndarray:
    return _seconds(gpu, to_kernel(guess.warps), _resources(guess.resources))


def _left_out_seconds(gpu: Gpu, guess: Estimate) -> np.ndarray:
    """Predict [n] compiled configurations, each from the others."""
    resources = {name: values[guess.compiled] for name, values in guess.resources.items()}
    resources["registers"] = guess.left_out_registers
    return _seconds(gpu, to_kernel(guess.left_out), _resources(resources))


def _resources(fields: Mapping[str, Any]) -> Resources:
    with in_64_bits():
        return Resources(**fields)


def _numbers_off(
    read: Sequence[KernelProfile | Failure], guess: Estimate, others: np.ndarray
) -> dict[str, dict[str, float]]:
    """Compute for each count the errors of estimates of configurations that were not compiled."""
    profiles = [profile for index in others if isinstance(profile := read[index], KernelProfile)]
    warps = stacked([profile.numbers for profile in profiles])
    counted = dict(zip(column_names(phases_of(warps)), warps.T, strict=True))
    estimated = dict(zip(counted, guess.warps[others].T, strict=False))
    for name in ("registers", "shared_bytes"):
        counted[name] = np.array([float(getattr(profile, name)) for profile in profiles])
        estimated[name] = guess.resources[name][others].astype(float)
    errors = {}
    for name, numbers in counted.items():
        scale = np.where(numbers > 0.0, numbers, max(numbers.mean(), 1e-300))
        errors[name] = _summary(np.abs(estimated[name] - numbers) / scale)
    return errors


def _summary(off: np.ndarray) -> dict[str, float]:
    return {"median": float(np.median(off)), "p90": float(np.quantile(off, 0.9)), "max": float(off.max())}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the comparison. **Raises:** DseError for unreadable input."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kernel")
    parser.add_argument("--gpu", "-g", required=True)
    parser.add_argument("--measured", type=Path, required=True, metavar="FILE", help="times of the space")
    parser.add_argument(
        "--compile", type=int, default=48, metavar="N", help="from which the others are estimated"
    )
    parser.add_argument("--sample", type=int, default=300, metavar="N", help="configurations, at random")
    parser.add_argument("--draws", type=int, default=3, metavar="N", help="random choices of as many")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--plain", action="store_true", help="without the description's names of sizes")
    parser.add_argument("--set", action="append", metavar="NAME=VALUE", help="as `dse rank` takes it")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    description, problem = inputs.description(options.kernel, inputs.settings(options.set))
    numbers = options.compile, options.sample, options.draws, options.seed, options.plain
    checked = check(options.measured, description, dse.gpu(options.gpu), problem, *numbers)
    if options.json:
        print(json_text(checked))
        return
    scores, few = checked["spearman"], checked["compiled"]
    ranks = {"all compiled": scores["all"], f"{few} chosen": scores["chosen"]}
    ranks |= {f"{few} at random, {draw}": value for draw, value in enumerate(scores["random"], 1)}
    title = f"{description.name} on {checked['gpu']}: {checked['sample']} configurations"
    show([{"compiled": name, "spearman": value} for name, value in ranks.items()], title=title)
    show(rows(checked), title=f"Numbers of the others, relative ({checked['failures']} fail)")
    print(f"CPU of choosing and estimating: {1e3 * checked['cpu_seconds_per_configuration']:.1f} ms each")
    print(f"bank conflicts exact: {', '.join(checked['exact_patterns']) or 'none'}")


if __name__ == "__main__":
    run_script(main)
