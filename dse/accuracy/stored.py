"""Our own measurements: the tables that `dse measure store` put beside the kernels."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dse import kernels
from dse.accuracy.spaces import Note, ignore
from dse.core import catalogue
from dse.core.precision import in_64_bits
from dse.errors import DseError
from dse.explore.fit.launches import Launches, log_seconds
from dse.explore.fit.parameters import NAMES
from dse.hardware import gpus
from dse.hardware.gpus import GpuFile
from dse.kernels.description import Description
from dse.measure.bench.gpu_file import MEASURED, SWEPT
from dse.models.protocol import Model

Scores = TypeVar("Scores")


@dataclass(frozen=True)
class Stored:
    """A table beside a kernel, and the GPU that it was measured on."""

    description: Description
    gpu: GpuFile  # the one that was measured with the table where there is such a file, else the data sheet's
    path: Path


def stored(swept: bool = False) -> Iterator[Stored]:
    """Find the tables beside all kernels: of spaces, or those in which occupancy was swept."""
    for name in kernels.names():
        description = kernels.load(name)
        for path in sorted((description.path.parent / "measured").glob("*.parquet")):
            stem = path.stem.partition("-")[0]  # without problem sizes
            if stem.endswith(SWEPT) != swept:
                continue
            slug = stem.removesuffix(SWEPT)
            own = catalogue.folder("gpus") / f"{slug}{MEASURED}.toml"
            yield Stored(description, gpus.load(str(own) if own.is_file() else slug), path)


def scored(
    tables: Iterable[Stored], scores: Callable[[Stored], Scores], note: Note = ignore
) -> Iterator[Scores]:
    """Score tables; one that holds nothing to score is left out, and noted."""
    for table in tables:
        try:
            yield scores(table)
        except DseError as error:
            note(f"{table.path}: {error}: left out")


def predicted(launches: Launches, model: str | Model, logs: np.ndarray | None = None) -> np.ndarray:
    """Predict seconds of launches [L], infinite where one is impossible.

    `logs` are how far the GPU's parameters are moved, as logs; as they come without them.
    """
    with in_64_bits():
        moved = np.zeros(len(NAMES)) if logs is None else logs
        return np.asarray(_seconds(launches, model, jnp.asarray(moved)))


@eqx.filter_jit
def _seconds(launches: Launches, model: str | Model, logs: jax.Array) -> jax.Array:
    return jnp.where(launches.possible, jnp.exp(log_seconds(launches, model, NAMES, logs)), jnp.inf)
