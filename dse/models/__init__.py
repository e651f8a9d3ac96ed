"""The registry of models: closed forms, each a module with `predict(gpu, kernel, launch)`, and the simulator.

Models are imported on first use, so that `--help` stays fast.
"""

from collections.abc import Iterable
from importlib import import_module
from types import ModuleType

from dse.errors import DseError, check_names
from dse.models.pipeline import Pipeline
from dse.models.protocol import ClosedForm, Model

_ALL: tuple[Model, ...] = (
    ClosedForm("roofline"),
    ClosedForm("volkov"),
    ClosedForm("transit"),
    ClosedForm("mwp-cwp"),
    ClosedForm("mwp-cwp-printed"),
    ClosedForm("mwp-cwp-pipeline"),
    ClosedForm("mwp-cwp-corrected"),
    ClosedForm("wfg-pipeline", "dse.models.wfg.pipeline"),
    ClosedForm("wfg-corrected", "dse.models.wfg.corrected"),
    ClosedForm("wfg", "dse.models.wfg.counts"),
    ClosedForm("gpumech-rr"),
    ClosedForm("gpumech-rr-corrected"),
    ClosedForm("gpumech-gto"),
    ClosedForm("kothapalli-max"),
    ClosedForm("kothapalli-sum"),
    ClosedForm("gpuperf"),
    ClosedForm("phase"),
    Pipeline(),
)
MODELS = {model.name: model for model in _ALL}
CLOSED_FORMS = tuple(name for name, model in MODELS.items() if model.differentiable)
DEFAULT = "phase"  # the most accurate without tuning, docs/accuracy.md


def get(model: str | Model) -> Model:
    """Return the model of a name; a model is returned as is. **Raises:** DseError for an unknown name."""
    if not isinstance(model, str):
        return model
    check_names("model", MODELS, model)
    return MODELS[model]


def get_all(models: Iterable[str | Model]) -> tuple[Model, ...]:
    """Return several models, see `get`. **Raises:** DseError for none."""
    if not (registered := tuple(map(get, models))):
        raise DseError("model: found none, expected at least one")
    return registered


def module(name: str) -> ModuleType:
    """Import the module that documents a model of the registry. **Raises:** DseError for an unknown name."""
    model = get(name)
    return model.module if isinstance(model, ClosedForm) else import_module(type(model).__module__)
