"""The registry of models. A closed form is a module of this package with `predict(gpu, kernel, launch)`.

What is simulated has a room of its own, `dse.simulator`. Naming models imports none of them, so that `--help`
stays fast.
"""

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType
from typing import Any

from dse.errors import DseError

CLOSED_FORMS = (
    "roofline",
    "volkov",
    "transit",
    "mwp-cwp",
    "mwp-cwp-printed",
    "mwp-cwp-pipeline",
    "mwp-cwp-corrected",
    "wfg-pipeline",
    "wfg-corrected",
    "wfg",
    "gpumech-rr",
    "gpumech-rr-corrected",
    "gpumech-gto",
    "kothapalli-max",
    "kothapalli-sum",
    "gpuperf",
    "phase",
)
SIMULATED = ("pipeline",)
MODELS = (*CLOSED_FORMS, *SIMULATED)

_ELSEWHERE = {
    "pipeline": "dse.simulator.pipeline",
    "wfg": "dse.models.wfg.counts",
    "wfg-corrected": "dse.models.wfg.corrected",
    "wfg-pipeline": "dse.models.wfg.pipeline",
}
DEFAULT = "phase"  # best of those that need no tuning, docs/accuracy.md


def check_name(name: str) -> None:
    """DseError where there is no model of that name."""
    if name not in MODELS:
        near = get_close_matches(name, MODELS, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise DseError(f"model: found {name!r}, expected one of {', '.join(MODELS)}{hint}")


def module(name: str) -> ModuleType:
    """The module of a model. DseError where there is none of that name."""
    check_name(name)
    return import_module(_ELSEWHERE.get(name, f"dse.models.{name.replace('-', '_')}"))


def predictor(name: str) -> Callable[..., Any]:
    """A closed form's `predict`. DseError for another name."""
    if name in SIMULATED:
        raise DseError(f"model: found {name!r}, expected a closed form: one of {', '.join(CLOSED_FORMS)}")
    return module(name).predict
