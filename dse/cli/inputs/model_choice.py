"""Which models a command asks for, and how they are to simulate."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dse.errors import DseError, one_of
from dse.models import DEFAULT, get, get_all
from dse.models.pipeline import Pipeline

if TYPE_CHECKING:
    from dse.models.protocol import Model
    from dse.simulator.pipeline import Settings


def models(
    names: Sequence[str] | None,
    default: Sequence[str] = (DEFAULT,),
    scheduler: str | None = None,
    order: str | None = None,
    groups: int | None = None,
) -> tuple["Model", ...]:
    """Return the models asked for, each once; the simulator with what is asked of it.

    **Raises:** DseError for one that there is not, or for settings where nothing is simulated.
    """
    chosen = get_all(dict.fromkeys(names or default))
    asked = {"scheduler": scheduler, "order": order, "groups": groups}
    asked = {name: value for name, value in asked.items() if value is not None}
    simulators = [model for model in chosen if isinstance(model, Pipeline)]
    if not simulators:
        for name, value in asked.items():
            shown = ", ".join(model.name for model in chosen)
            raise DseError(f"--{name}: found {value} with {shown}, expected --model pipeline")
        return chosen
    settings = simulated(asked)
    return tuple(
        replace(model, scheduler=settings.scheduler, order=settings.order, groups=settings.groups)
        if isinstance(model, Pipeline)
        else model
        for model in chosen
    )


def closed_form(name: str | None) -> "Model":
    """Return the closed form asked for, else the default model. **Raises:** DseError for another model."""
    model = get(name or DEFAULT)
    if not model.differentiable:
        raise DseError(f"--model: found {model.name}, expected a closed form")
    return model


def simulated(asked: Mapping[str, Any]) -> "Settings":
    """Return how to simulate, by scheduler, order and groups asked for. DseError for an unknown name."""
    from dse.simulator.case.program import ORDERS, SCHEDULERS
    from dse.simulator.pipeline import Settings

    for name, allowed in (("scheduler", SCHEDULERS), ("order", ORDERS)):
        if asked.get(name, allowed[0]) not in allowed:
            raise DseError(f"--{name}: found {asked[name]!r}, {one_of(str(asked[name]), allowed)}")
    return Settings(**asked)
