"""A number of a GPU found from a time by gradient: optimistix solves, dse gives the model."""

import jax.numpy as jnp
import numpy as np
import optimistix

import dse
from dse.explore.fit.launches import log_seconds, of_kernel

LAUNCH = {"tile": [16, 32], "rows": [8, 8], "shared": [1, 1], "padding": [1, 1]}
NAMES = ("cpi.dram",)  # whose logs over the catalogue's values are found


def main() -> None:
    gpu, kernel = dse.gpu("a100").gpu, dse.kernel("transpose")
    launches = of_kernel(kernel, gpu, {name: np.array(values) for name, values in LAUNCH.items()})
    measured = log_seconds(launches, "phase", NAMES, jnp.array([0.4]))  # of a DRAM that is slower

    def off(logs, _):
        return (log_seconds(launches, "phase", NAMES, logs) - measured).astype(logs.dtype)

    solver = optimistix.LevenbergMarquardt(rtol=1e-5, atol=1e-5)
    found = optimistix.least_squares(off, solver, jnp.array([0.0])).value
    print(f"λ of DRAM: {float(jnp.exp(found[0])):.3f} times the catalogue's")


if __name__ == "__main__":
    main()
