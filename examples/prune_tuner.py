"""For who has a tuner that takes too long: hand it a part of the space, or let dse choose one by one.

`measure` stands in for a benchmark: its times are predictions by another model, with noise. Put yours in its
place.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

import dse

KERNEL, GPU = "convolution", "a4000"


def made_up_times() -> dict[tuple[Any, ...], float]:
    """Times of all configurations, by a model that the tuner does not use."""
    found = dse.predict(KERNEL, GPU, models="volkov")
    noise = np.exp(0.02 * np.random.default_rng(0).normal(size=np.shape(found.seconds)))
    rows = zip(*(values.tolist() for values in found.parameters.values()), strict=True)
    return dict(zip(rows, (np.asarray(found.seconds) * noise).tolist(), strict=True))


def main() -> None:
    times = made_up_times()
    names = dse.kernel(KERNEL).space.names
    fastest = min(times.values())

    def measure(configuration: Mapping[str, Any]) -> float | None:
        seconds = times[tuple(configuration[name] for name in names)]
        return seconds if np.isfinite(seconds) else None

    kept = dse.prune(KERNEL, GPU, risk=0.05).rows()
    reached = min(seconds for row in kept if (seconds := measure(row)) is not None)
    print(f"pruned: {len(kept)} of {len(times)} measured, {fastest / reached:.2f} of the best performance")

    run = dse.tune(KERNEL, GPU, measure, budget=20)
    share = fastest / run.rows()[-1]["fastest_s"]
    print(f"tuned: {len(run.rows())} measured, {share:.2f} of the best performance")


if __name__ == "__main__":
    main()
