"""For who sweeps designs: one kernel on several GPUs, and on one that does not exist yet.

Prints the best configuration on each GPU, what binds it, and which number of the A100 is worth most.
"""

import tempfile
from pathlib import Path

import jax

import dse

KERNEL = "transpose"
GPUS = ("a100-pcie-40gb", "h100-sxm", "mi250x", "rtx-3090")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        doubled = Path(folder) / "a100_doubled.toml"
        text = dse.gpu("a100-pcie-40gb").path.read_text(encoding="utf-8")
        doubled.write_text(text.replace("value = 1555\n", "value = 3110\n"), encoding="utf-8")
        for gpu in (*GPUS, doubled):
            best = dse.rank(KERNEL, gpu).rows(1)[0]
            chosen = {name: best[name] for name in dse.kernel(KERNEL).space.names}
            name = "A100 with twice the bandwidth" if gpu is doubled else best["gpu"]
            print(f"{name}: {1e6 * best['time_s']:.1f} µs, bound by {best['bottleneck']}, {chosen}")

    gpu = dse.gpu("a100-pcie-40gb")
    launch = {"tile": 32, "rows": 8, "shared": 1, "padding": 1}
    slope = jax.grad(lambda gpu: dse.predict(KERNEL, gpu, launch).seconds.sum())(gpu)
    pipes = ("fp32", "int32", "shared", "l1", "l2", "dram")
    gains = {pipe: float(getattr(slope.gpu.cpi, pipe) * getattr(gpu.gpu.cpi, pipe)) for pipe in pipes}
    pipe = max(gains, key=lambda name: gains[name])
    print(f"1 % off λ of {pipe} saves most: {1e4 * gains[pipe]:.3f} µs")


if __name__ == "__main__":
    main()
