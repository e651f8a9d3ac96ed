"""Models by name, and the simulator's options."""

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
        typer.Option(metavar="NAME", help="pipeline: warp scheduler, rr (default), gto or oldest."),
    ] = None
    order: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="pipeline: order of a warp's instructions, program (default) or dataflow.",
        ),
    ] = None
    groups: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=2**31 - 1,
            help="pipeline: simulate this many blocks of one SM completely, at least two waves; default: "
            "samples.",
        ),
    ] = None


def models(
    names: Sequence[str] | None,
    default: Sequence[str] = (DEFAULT,),
    simulator: SimulatorOptions | None = None,
) -> tuple["Model", ...]:
    """Return models by name, without duplicates, with the simulator's options.

    **Raises:** DseError for an unknown model, or for the simulator's options without the simulator.
    """
    check_single("--model", names or ())
    registered = get_all(dict.fromkeys(names or default))
    options = asdict(simulator or SimulatorOptions())
    options = {name: value for name, value in options.items() if value is not None}
    if not any(isinstance(model, Pipeline) for model in registered):
        for name, value in options.items():
            shown = ", ".join(model.name for model in registered)
            raise DseError(f"--{name}: found {value} with {shown}, expected --model pipeline")
        return registered
    from dse.evaluate.simulated import check

    settings = check(options)
    return tuple(
        replace(model, scheduler=settings.scheduler, order=settings.order, groups=settings.groups)
        if isinstance(model, Pipeline)
        else model
        for model in registered
    )


def closed_form(name: str | None) -> "Model":
    """Return a closed form by name, or the default model. **Raises:** DseError for another model."""
    model = get(name or DEFAULT)
    if not model.differentiable:
        raise DseError(f"--model: found {model.name}, expected a closed form")
    return model
