"""A model of one's own, beside the default one: nothing but DRAM traffic takes time."""

import dse
from dse.models.about import About
from dse.types import Prediction


class Traffic:
    """Bytes over bandwidth."""

    name = "traffic"
    about = About("ours", {}, ("sectors",), ("all else",), "As a bound.")
    differentiable = True
    batch = 65_536  # configurations at a time

    def predict(self, gpu, kernel, launch):
        warps = launch.warps_per_block * launch.blocks
        return Prediction.of(gpu.clock, dram=kernel.work.dram * warps * gpu.cpi.dram / gpu.sm_count)


def main() -> None:
    ranking = dse.rank("transpose", "a100", ["phase", Traffic()])
    best = ranking.best
    print(f"{best['time_s'] * 1e6:.1f} µs by phase, {best['traffic_s'] * 1e6:.1f} µs of traffic")


if __name__ == "__main__":
    main()
