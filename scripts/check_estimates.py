"""What is lost if few configurations are compiled and the others estimated from them.

`check_estimates.py SPACE.csv.gz KERNEL GPU [--compiled 48] [--sample 300] [--where NAME=VALUE] [--json]`: the
rank correlation of the phase model with measured times if all of a sample are compiled, if a chosen few are,
and if as many at random are; then how far single numbers are off. `--plain` leaves out the names that the
kernel's description has of sizes.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from scipy.stats import spearmanr

from dse import gpus, kernels, measured
from dse.counts import Counted
from dse.cuda.estimate.active_sampling import choose
from dse.cuda.estimate.estimate import Estimate, estimate
from dse.cuda.estimate.features import known
from dse.cuda.profile.to_kernel import to_kernel
from dse.cuda.profile.warp_counts import column_names, stacked
from dse.cuda.source import KernelProfile, characterise_all, configurations, source_of
from dse.cuda.source_kernel import architecture, as_models_take_it
from dse.errors import DseError
from dse.evaluate.chunks import evaluate_counted
from dse.kernels.description import evaluated_names
from dse.models import get
from dse.types import Kernel, Resources


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("space", type=Path)
    parser.add_argument("kernel")
    parser.add_argument("gpu")
    parser.add_argument("--compiled", type=int, default=48)
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--random", type=int, default=3, help="draws of as many at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--where", action="append", default=[], metavar="NAME=VALUE", help="rows to take")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    found = check(given)
    print(json.dumps(found) if given.json else _text(found))


def check(given: argparse.Namespace) -> dict[str, Any]:
    description, gpu = kernels.load(given.kernel), gpus.load(given.gpu)
    table = measured.load(given.space, description)
    there = np.isfinite(table.time_s)
    for each in given.where:
        name, _, value = each.partition("=")
        there &= table.parameters[name] == float(value)
    rows = np.sort(np.random.default_rng(given.seed).permutation(np.flatnonzero(there))[: given.sample])
    parameters = {name: np.asarray(values)[rows] for name, values in table.parameters.items()}
    sizes = description.sizes(**table.problem)
    wanted, source = configurations(description, parameters, sizes, gpu.gpu), source_of(description)
    found = characterise_all(source, architecture(gpu.gpu), wanted, gpu.gpu)
    good = [place for place, each in enumerate(found) if isinstance(each, KernelProfile)]
    times = table.time_s[rows]
    names = evaluated_names(description, parameters, sizes, gpu.gpu)
    let = {} if given.plain else {name: names[name] for name, _ in description.let}
    before = known(source, parameters, wanted, let)

    def seconds(kernel: Kernel, resources: Resources) -> np.ndarray:
        count, gpus_of_one = len(resources.threads), jax.tree.map(lambda x: x[None], gpu.gpu)
        batch = Counted.known(kernel, resources, count).batch
        evaluation = evaluate_counted(batch, count, description.name, [get("phase")], gpus_of_one)
        return evaluation.forecasts["phase"].seconds[0]

    def spearman(predicted: np.ndarray) -> float:
        found: Any = spearmanr(predicted[good], times[good])
        return float(found[0])

    compiled = seconds(*as_models_take_it(found))
    begun = time.process_time()
    chosen: dict[int, Any] = {}
    while batch := choose(before, given.compiled, chosen):
        chosen |= {place: found[place] for place in batch}
    guess = estimate(before, chosen, gpu.gpu.limits)
    spent = time.process_time() - begun
    estimated = seconds(*_as_models_take_it(guess))
    others = np.setdiff1d(good, list(chosen))
    draws = []
    for seed in range(given.random):
        drawn = np.random.default_rng(seed).permutation(len(found))[: given.compiled].tolist()
        drawn_guess = estimate(before, {place: found[place] for place in drawn}, gpu.gpu.limits)
        draws.append(spearman(seconds(*_as_models_take_it(drawn_guess))))
    off = np.abs(estimated / compiled - 1.0)[others]
    out: dict[str, Any] = {name: values[guess.compiled] for name, values in guess.resources.items()}
    out["registers"] = guess.left_out_registers
    left_out = seconds(to_kernel(guess.left_out), Resources(**out)) / compiled[guess.compiled] - 1.0
    return {
        "kernel": description.name,
        "gpu": gpu.name,
        "sample": len(found),
        "failures": len(found) - len(good),
        "compiled": len(chosen),
        "spearman": {"all": spearman(compiled), "chosen": spearman(estimated), "random": draws},
        "time_off": _summary(off),
        "numbers_off": _numbers_off(found, guess, others),
        "left_out_off": {"time": _summary(np.abs(left_out))}
        | {name: _summary(np.abs(values)) for name, values in guess.errors().items()},
        "exact_patterns": sorted(guess.exact_patterns),
        "cpu_seconds_per_configuration": spent / len(found),
    }


def _as_models_take_it(guess: Estimate) -> tuple[Kernel, Resources]:
    resources: dict[str, Any] = dict(guess.resources)
    return to_kernel(guess.warps), Resources(**resources)


def _numbers_off(found: list[Any], guess: Estimate, others: np.ndarray) -> dict[str, dict[str, float]]:
    read = stacked([found[place].warp for place in others])
    counted = dict(zip(column_names(read.phases.passes.shape[1]), read.to_matrix().T, strict=True))
    estimated = dict(zip(counted, guess.warps[others].to_matrix().T, strict=False))
    for name in ("registers", "shared_bytes"):
        counted[name] = np.array([float(getattr(found[place], name)) for place in others])
        estimated[name] = guess.resources[name][others].astype(float)
    result = {}
    for name, numbers in counted.items():
        scale = np.where(numbers > 0.0, numbers, max(numbers.mean(), 1e-300))
        result[name] = _summary(np.abs(estimated[name] - numbers) / scale)
    return result


def _summary(off: np.ndarray) -> dict[str, float]:
    return {"median": float(np.median(off)), "p90": float(np.quantile(off, 0.9)), "max": float(off.max())}


def _text(found: dict[str, Any]) -> str:
    rho = found["spearman"]
    random = ", ".join(f"{each:.3f}" for each in rho["random"])
    few, milliseconds = found["compiled"], 1e3 * found["cpu_seconds_per_configuration"]
    lines = [
        f"{found['kernel']} on {found['gpu']}: {found['sample']} configurations, {found['failures']} fail",
        f"Spearman: all compiled {rho['all']:.3f}; {few} chosen {rho['chosen']:.3f}; {few} random {random}",
        f"CPU of choosing and estimating: {milliseconds:.1f} ms a configuration",
        f"bank conflicts exact: {', '.join(found['exact_patterns']) or 'none'}",
        f"{'off, relative':28s} {'median':>8s} {'90 %':>8s} {'most':>8s} | left out: median, 90 %",
    ]
    for name, each in {"time": found["time_off"], **found["numbers_off"]}.items():
        if each["max"] > 1e-3:
            out = found["left_out_off"].get(name, {"median": np.nan, "p90": np.nan})
            numbers = f"{each['median']:8.3f} {each['p90']:8.3f} {each['max']:8.2f}"
            lines.append(f"{name:28s} {numbers} | {out['median']:8.3f} {out['p90']:8.3f}")
    return "\n".join(lines)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    try:
        main()
    except DseError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
