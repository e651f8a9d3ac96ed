"""Plans of the configurations to compile or time, and their titles."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dse.cli import inputs
from dse.errors import DseError

if TYPE_CHECKING:
    from dse.measure.space import SpacePlan
    from dse.types import Gpu


def plan_all(
    names: Sequence[str],
    changed: inputs.SetOption,
    sample: int | None,
    seed: int,
    gpu: "Gpu",
    cases: Path | None = None,
) -> "list[SpacePlan]":
    """Plan kernels by name, at each problem size in the file `cases`."""
    from dse.measure.cases import read
    from dse.measure.space import plan

    sizes = inputs.settings(changed)
    rows = [{}] if cases is None else read(cases)
    kernels = [pair for row in rows for pair in inputs.several_descriptions(names, {**row, **sizes})]
    return [plan(description, sizes, gpu, sample, seed) for description, sizes in kernels]


def plan_built(
    path: Path,
    names: Sequence[str],
    changed: inputs.SetOption,
    sample: int | None,
    seed: int,
    gpu: "Gpu",
    arch: int,
) -> "list[SpacePlan]":
    """Plan the content of a file of `dse measure build`. **Raises:** DseError for another architecture."""
    from dse.measure.built import read
    from dse.measure.space import plan

    built, sizes = read(path), inputs.settings(changed)
    if built.arch != arch:
        raise DseError(f"{path}: architecture: found sm_{built.arch}, expected sm_{arch} of this GPU")
    plans = []
    for space in built.of(names, sizes):
        [(description, _)] = inputs.several_descriptions([space.kernel], sizes)
        plans.append(plan(description, space.sizes, gpu, sample, seed, space))
    return plans


def gpu_like(name: str, arch: int) -> "Gpu":
    """Return the fields of a GPU used in expressions of a kernel."""
    from dse.measure.bench.gpu_file import like

    return like(name or f"sm_{arch}", f"{arch // 10}.{arch % 10}").gpu


def title(plan: "SpacePlan") -> str:
    """Name a kernel, with its problem sizes if they are not the defaults."""
    changed = {
        name: size for name, size in plan.sizes.items() if dict(plan.description.problem)[name] != size
    }
    return f"{plan.name} ({in_words(changed)})" if changed else plan.name


def in_words(sizes: Mapping[str, int | float]) -> str:
    """Format sizes: n=128, k=0.5."""
    return ", ".join(f"{name}={size:g}" for name, size in sizes.items())
