"""The registry of models. A model is a module of this package with a function `predict(gpu, kernel, launch)`.

Naming them imports none of them, so that `--help` stays fast.
"""

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType
from typing import Any

from dse.errors import DseError

MODELS = (
    "roofline",
    "volkov",
    "transit",
    "mwp-cwp",
    "mwp-cwp-printed",
    "mwp-cwp-pipeline",
    "mwp-cwp-corrected",
    "wfg-pipeline",
    "wfg-corrected",
)

DEFAULT = (
    "mwp-cwp-corrected"  # Volkov with fill and drain: best of those that need no tuning, docs/accuracy.md
)


def check_name(name: str) -> None:
    """DseError where there is no model of that name."""
    if name not in MODELS:
        near = get_close_matches(name, MODELS, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise DseError(f"model: found {name!r}, expected one of {', '.join(MODELS)}{hint}")


def module(name: str) -> ModuleType:
    """The module of a model. DseError where there is none of that name."""
    check_name(name)
    return import_module(f"dse.models.{name.replace('-', '_')}")


def predictor(name: str) -> Callable[..., Any]:
    """The model's `predict`."""
    return module(name).predict
