"""Which models a command asks for, and how they are to simulate."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from dse.cli.inputs.kernels import check_single
from dse.errors import DseError
from dse.models import DEFAULT, get, get_all
from dse.models.pipeline import Pipeline

if TYPE_CHECKING:
    from dse.models.protocol import Model


@dataclass(frozen=True)
class SimulatorOptions:
    """Options of the model `pipeline`."""

    panel: ClassVar = "The model pipeline"

    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Of pipeline: which ready warp goes first, rr (default), gto or oldest."
        ),
    ] = None
    order: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of pipeline: a warp's instructions in program order (default) or dataflow order.",
        ),
    ] = None
    groups: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=2**31 - 1,
            help="Of pipeline: simulate so many blocks of one SM from start to end, two rounds at least; "
            "without it, samples are.",
        ),
    ] = None


def models(
    names: Sequence[str] | None,
    default: Sequence[str] = (DEFAULT,),
    simulator: SimulatorOptions | None = None,
) -> tuple["Model", ...]:
    """Return the models asked for, each once, and the simulator with its options.

    **Raises:** DseError for an unknown model, or for options of the simulator where nothing is simulated.
    """
    check_single("--model", names or ())
    registered = get_all(dict.fromkeys(names or default))
    asked = {
        name: value for name, value in asdict(simulator or SimulatorOptions()).items() if value is not None
    }
    if not any(isinstance(model, Pipeline) for model in registered):
        for name, value in asked.items():
            shown = ", ".join(model.name for model in registered)
            raise DseError(f"--{name}: found {value} with {shown}, expected --model pipeline")
        return registered
    from dse.evaluate.simulated import check

    settings = check(asked)
    return tuple(
        replace(model, scheduler=settings.scheduler, order=settings.order, groups=settings.groups)
        if isinstance(model, Pipeline)
        else model
        for model in registered
    )


def closed_form(name: str | None) -> "Model":
    """Return the closed form asked for, else the default model. **Raises:** DseError for another model."""
    model = get(name or DEFAULT)
    if not model.differentiable:
        raise DseError(f"--model: found {model.name}, expected a closed form")
    return model
