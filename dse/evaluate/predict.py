"""Predictions of one model for configurations of one kernel, differentiable with respect to the GPU."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from dse.core.precision import in_64_bits
from dse.core.progress import Progress, silent
from dse.data.tables import ConfigurationResult, rows_of
from dse.errors import DseError, one_of
from dse.evaluate.chunks import RESOURCES, evaluate, forecast, place_launches
from dse.evaluate.rank import configurations
from dse.hardware import occupancy
from dse.hardware.gpus import GpuFile, column, stack
from dse.hardware.gpus.tree import origin, traced
from dse.kernels.counts import Counts, Number, sizes_of
from dse.models import get
from dse.models.protocol import Model


class Predicted(eqx.Module, ConfigurationResult):
    """A model's predictions. Arrays [L]; [GPUs, L] for several GPUs; [] for one configuration.

    **Units:** by name; `occupancy` is a share, 0 to 1; `bottleneck` an index into `terms`.
    **Edges:** if not `possible`, times are infinite and `bottleneck` is -1.
    """

    seconds: Array | np.ndarray
    cycles: Array | np.ndarray
    possible: Array | np.ndarray
    warps_per_sm: Array | np.ndarray
    occupancy: Array | np.ndarray
    limiter: Array | np.ndarray  # a code of `dse.hardware.occupancy.LIMITERS`
    bottleneck: Array | np.ndarray
    terms: tuple[str, ...] = eqx.field(static=True)
    labels: tuple[tuple[str, Any], ...] = eqx.field(static=True)  # kernel, model, problem sizes
    gpus: tuple[str, ...] = eqx.field(static=True)  # names
    parameters: dict[str, Any]  # arrays as above
    resources: dict[str, Any]  # arrays as above

    def __repr__(self) -> str:
        """Summarize in one line; there are no rows while JAX traces."""
        traced = isinstance(self.seconds, Tracer)
        return "<Predicted, traced>" if traced else ConfigurationResult.__repr__(self)

    @property
    def hidden(self) -> tuple[str, ...]:
        """Columns omitted in displayed tables."""
        return (*dict(self.labels), "warps_per_sm", "possible", "cycles")

    def rows(self, top: int | None = None) -> list[dict[str, Any]]:
        """Return one row a GPU and configuration, in their order, with the columns of `dse.data.columns`."""
        count = len(self.gpus) * max(1, np.size(next(iter(self.parameters.values()))))
        shape = (len(self.gpus), count // len(self.gpus))
        words = np.array(occupancy.LIMITERS, object)[np.asarray(self.limiter)]
        terms = np.array([*self.terms, ""], object)[np.asarray(self.bottleneck)]
        fields = {"warps_per_sm": self.warps_per_sm, "occupancy": self.occupancy, "limited_by": words}
        fields |= {"possible": self.possible, "cycles": self.cycles, "time_s": self.seconds}
        fields = {**self.parameters, **self.resources, **fields, "bottleneck": terms}
        columns = {
            name: np.broadcast_to(np.asarray(x), np.shape(self.seconds)).ravel()[:top]
            for name, x in fields.items()
        }
        gpus = np.repeat(np.array(self.gpus, object), shape[1])[:top]
        labels = dict(self.labels)
        rows = zip(gpus, rows_of(columns), strict=True)
        return [{"kernel": labels["kernel"], "gpu": gpu} | labels | row for gpu, row in rows]


def predict(
    gpus: GpuFile | Sequence[GpuFile],
    kernel: Counts,
    parameters: Mapping[str, Any] | None,
    model: str | Model,
    problem: Mapping[str, Number] | None = None,
    progress: Progress = silent,
) -> Predicted:
    """Predict configurations of a kernel: `parameters`, or all valid ones.

    Counts are computed on the GPU as read from its file, even while JAX differentiates.

    **Shapes:** parameters are scalars or [L]; results [L], [GPUs, L] for a list of GPUs, [] for scalars.
    **Raises:** DseError as the kernel's `count`, for an unknown model, for unknown parameters, and for a
    simulated model while JAX traces.
    """
    files = list(gpus) if isinstance(gpus, Sequence) else [gpus]
    registered, sizes = get(model), sizes_of(kernel, problem)
    columns = _columns(kernel, parameters) if parameters else configurations(kernel, problem)
    scalar = bool(parameters) and all(np.ndim(x) == 0 for x in parameters.values())
    if any(map(traced, files)):
        predicted = _traced(kernel, registered, files, columns, sizes, progress)
    else:
        gpus_read = stack([file.gpu for file in files])
        evaluation = evaluate(kernel, (registered,), gpus_read, columns, sizes, progress)
        names = ("resources", "warps_per_sm", "occupancy", "limiter", "possible")
        predicted = {name: getattr(evaluation, name) for name in names}
        predicted |= vars(evaluation.forecasts[registered.name])
    predicted["resources"] = {name: predicted["resources"][name] for name in RESOURCES}

    def shaped(x: Any) -> Any:
        x = x[0] if isinstance(gpus, GpuFile) else x
        return x[..., 0] if scalar else x

    arrays = jax.tree.map(shaped, {name: x for name, x in predicted.items() if name != "terms"})
    parameters = {name: values[0] if scalar else values for name, values in columns.items()}
    labels = {"kernel": kernel.name, "model": registered.name} | sizes
    names = tuple(file.name for file in files)
    return Predicted(
        **arrays, terms=predicted["terms"], labels=tuple(labels.items()), gpus=names, parameters=parameters
    )


def _columns(kernel: Counts, parameters: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Broadcast parameters to [L]; parameters with a single value may be omitted."""
    space = kernel.space.values
    for name in parameters:
        if space and name not in space:
            raise DseError(f"launch: {kernel.name}: found {name!r}, {one_of(name, space)}")
    stated = {name: values[0] for name, values in space.items() if len(values) == 1} | dict(parameters)
    missing = [name for name in space if name not in stated]
    if missing:
        raise DseError(f"launch: {kernel.name}: found no {', '.join(missing)}, expected each parameter")
    arrays = {name: _numbers(f"launch: {kernel.name}: {name}", stated[name]) for name in (space or stated)}
    try:
        shape = np.broadcast_shapes(*(x.shape for x in arrays.values()))
    except ValueError:
        actual = ", ".join(f"{name} {x.size}" for name, x in arrays.items() if x.size > 1)
        raise DseError(f"launch: {kernel.name}: found values of {actual}, expected equally many") from None
    return {name: np.broadcast_to(x, shape) for name, x in arrays.items()}


def _numbers(where: str, values: Any) -> np.ndarray:
    """Return values as an array [L]: whole numbers, as also a table of floats has them, as integers."""
    array = np.atleast_1d(np.asarray(values))
    if array.dtype.kind not in "biuf" or not array.size or not np.isfinite(array).all():
        raise DseError(f"{where}: found {values!r}, expected numbers")
    whole = array.astype(np.int64)
    return whole if (whole == array).all() else array


def _traced(
    kernel: Counts,
    model: Model,
    files: Sequence[GpuFile],
    columns: Mapping[str, np.ndarray],
    sizes: Mapping[str, Number],
    progress: Progress,
) -> dict[str, Any]:
    """Predict while JAX traces the GPUs' numbers; all configurations at once."""
    if not model.differentiable:
        raise DseError(f"model: found {model.name}, which is simulated, expected a closed form for gradients")
    count = len(next(iter(columns.values())))
    numbers = jax.tree.map(lambda *x: jnp.stack(x)[:, None], *(file.gpu for file in files))
    with in_64_bits(), jax.ensure_compile_time_eval():
        known = stack([origin(file).gpu for file in files])
        counted = kernel.count(columns, known, sizes, progress)
        batch = counted.batch.take(np.arange(count)).on(column(known))
    batch = jax.tree.map(jnp.asarray, batch)
    launch, possible, facts = place_launches(numbers, batch.resources, batch.kernel.work)
    return facts | {"possible": possible} | vars(forecast(model, numbers, batch.kernel, launch, possible))
