"""Pipeline: a simulation of the warps of one SM, which share its pipes.

For a kernel given by counts all warps are the same, with equal phases, in which runs of instructions
represent single ones; graphs may define a separate program per warp. Of a long launch only the beginning is
simulated, and the rest extrapolated from its last part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dse.models.about import ASPECTS, About

if TYPE_CHECKING:
    from jaxtyping import Array

    from dse.simulator.pipeline import Settings
    from dse.types import Gpu, Kernel, Launch, Prediction

ABOUT = About(
    source="Lemeire, Cornelis & Konstantinidis, Sec. 3",
    equations={
        "Sec. 3": "an instruction enters its subsystem when what it needs is there (Λ), the subsystem is "
        "free (λ), so is an issue slot (1 / IL), and the scheduler picks its warp"
    },
    inputs=(
        "λ and Λ of each subsystem, issue limit",
        "the instructions of each warp and what each needs; from counts: an average warp",
        "warps of a block, blocks at a time, blocks in all",
        "scheduler",
    ),
    ignores=(
        "what mean counts do not tell, of kernels that are known by these only",
        "differences between SMs",
    ),
    use_when="When schedulers, barriers or warps that differ matter, and a thousand times the time does not.",
    aspects=frozenset(ASPECTS),
    column="pipeline",
    bounded=True,
)


@dataclass(frozen=True)
class Pipeline:
    """The simulator as a model, with its settings."""

    scheduler: str = "rr"  # rr, gto or oldest
    order: str = "program"  # or dataflow
    groups: int | None = None  # blocks whose phases are all simulated; None: a sample

    name = "pipeline"
    about = ABOUT
    differentiable = False
    batch = 4_096  # configurations: minutes, not hours

    @property
    def settings(self) -> Settings:
        """The settings of the simulator."""
        from dse.simulator.pipeline import Settings

        return Settings(self.scheduler, self.order, self.groups)

    def predict(
        self,
        gpu: Gpu,
        kernel: Kernel,
        launch: Launch,
        advance: Callable[[int], None] = lambda launches: None,
    ) -> Prediction:
        """Predict the cycles of launches, simulated on the host.

        **Shapes:** GPU fields are scalars, the others broadcast to [N]; all launches can run.
        **Precision:** the simulator computes in float64, results have the GPU's dtype.
        """
        from dse.simulator import on_host

        return on_host.predict(gpu, kernel, launch, self.settings, advance)

    def seconds(self, gpu: Gpu, kernel: Kernel, launch: Launch) -> Array:
        """Predict as `dse.models.protocol.seconds`, with derivatives of the critical path."""
        from dse.simulator import on_host

        return on_host.seconds(gpu, kernel, launch, self.settings)
