"""A GPU file as a JAX pytree: `jax.grad` differentiates with respect to the numbers of the file.

The leaves are the `numbers` of a GPU by name; λ and other values derived by the file's rules are recomputed
from them. Limits, which are integers, are constant.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.tree_util import GetAttrKey

from dse.core.precision import in_64_bits
from dse.errors import DseError, one_of
from dse.hardware.gpus import rules
from dse.hardware.gpus.facts import Fact, FieldEntry, FieldQuantities
from dse.hardware.gpus.fields import GROUPS, Header, absent, optional, units
from dse.types import ABSENT, Gpu, Limits, PerClass


@dataclass(frozen=True)
class GpuFile:
    """A GPU with the sources of its numbers. A pytree whose leaves are its `numbers`."""

    path: Path
    header: Header
    gpu: Gpu
    fields: tuple[Fact, ...]

    def __repr__(self) -> str:
        return f"<GpuFile {self.header.name}>"

    @property
    def name(self) -> str:
        """The full name of the GPU."""
        return self.header.name

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """The independent numbers by name, in SI, which `replace` and JAX may change.

        A stated field has its own name (`dram_bandwidth`, `latency.dram`); a derived one has the number of
        its rule (`cpi.dram.bandwidth_share`, `cpi.fp32.lanes`).
        """
        dtype = np.asarray(self.gpu.clock).dtype
        free = [fact for fact in self.fields if fact.free and not fact.field.startswith("limits.")]
        return {
            str(fact.free): np.asarray(fact.follows.number, dtype)
            if fact.follows
            else of(self.gpu, fact.field)
            for fact in free
        }

    def replace(self, changes: Mapping[str, Any] | None = None, /, **more: Any) -> "GpuFile":
        """Return this GPU with other numbers and all values derived from them.

        `gpu.replace(dram_bandwidth=2e12)`, `gpu.replace({"latency.dram": 500})`: names of fields, or of
        `numbers`. A derived field becomes an independent one. Differentiable.

        **Units:** SI, cycles. **Raises:** DseError for an unknown name or an impossible number.
        """
        return changed(self, {**(changes or {}), **more})


def build(path: Path, header: Header, entries: Mapping[str, FieldEntry], dtype: Any = np.float32) -> GpuFile:
    """Build a GPU from the tables of its file. **Raises:** DseError for impossible values."""
    missing = absent(entries)
    quantities = FieldQuantities(entries, units(), path)
    stated = [
        field for field in units() if field not in missing and field in (*entries, *rules.DEFAULT_RULES)
    ]

    arrays: dict[str, dict[str, Any]] = {group: {} for group in ("", *GROUPS)}
    with in_64_bits():  # else float64 would become float32
        for field in missing:
            group, _, last = field.rpartition(".")
            arrays[group][last] = np.asarray(ABSENT, dtype)
        arrays[""] |= {field: np.asarray(value, dtype) for field, value in optional().items()}
        for field in stated:
            group, _, last = field.rpartition(".")
            arrays[group][last] = np.asarray(
                quantities.number(field), np.int32 if group == "limits" else dtype
            )
        arrays = jax.device_put(arrays)  # all at once
        gpu = Gpu(
            **arrays[""],
            cpi=PerClass(**arrays["cpi"]),
            latency=PerClass(**arrays["latency"]),
            limits=Limits(**arrays["limits"]),
            compute_capability=header.capability,
            gfx=header.gfx,
        )
    quantities.warn()
    return GpuFile(path, header, gpu, tuple(map(quantities.fact, stated)))


def of(gpu: Gpu, field: str) -> Any:
    """Return a field of a GPU by its name in files, such as `cpi.fp32`."""
    group, dot, last = field.partition(".")
    return getattr(getattr(gpu, group), last) if dot else getattr(gpu, field)


def stack(gpus: Sequence[Gpu]) -> Gpu:
    """Stack GPUs on a new leading axis."""
    with in_64_bits():
        # In NumPy: JAX would compile a function for each number of GPUs. All at once takes half the time.
        return jax.device_put(jax.tree.map(lambda *leaves: np.stack(leaves), *gpus))


def column(gpus: Gpu) -> Gpu:
    """Reshape GPU fields [G] to [G, 1], in NumPy: the second axis is that of configurations."""
    return jax.tree.map(lambda x: np.asarray(x)[:, None], gpus)


class Changed(GpuFile):
    """A GPU file whose numbers were replaced or are traced by JAX; `origin` is the file as read."""

    def __init__(self, origin: GpuFile, numbers: dict[str, Any]) -> None:
        vars(self).update(path=origin.path, header=origin.header, fields=origin.fields)
        vars(self).update(origin=origin, numbers=numbers)

    origin: GpuFile

    @cached_property
    def gpu(self) -> Gpu:  # type: ignore[override]
        """The GPU of these numbers."""
        read, facts = self.origin.gpu, {fact.field: fact for fact in self.fields}
        dtype, known = read.clock.dtype, {}

        def number(field: str) -> Any:
            if field not in known:
                fact = facts.get(field)
                if field.startswith("limits."):
                    known[field] = int(of(read, field))
                elif field in self.numbers or fact is None or fact.follows is None:
                    known[field] = self.numbers.get(field, of(read, field))
                else:
                    rule = fact.follows
                    rule = rule._replace(number=self.numbers.get(str(fact.free), rule.number))
                    known[field] = rules.cycles(rule, field, number, jnp.maximum)
            return known[field]

        moved = [field for field in facts if not field.startswith("limits.")]
        values = [jnp.asarray(number(field), dtype) for field in moved]
        return eqx.tree_at(lambda gpu: [of(gpu, field) for field in moved], read, values)


class _Origin:
    """The static part of a GPU pytree: the file, compared by content."""

    def __init__(self, file: GpuFile) -> None:
        self.file = file

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Origin) and (self.file is other.file or self._content == other._content)

    def __hash__(self) -> int:
        return hash(self.file.path)

    @property
    def _content(self) -> tuple[Any, ...]:
        numbers = tuple(np.asarray(x).tobytes() for x in jax.tree.leaves(self.file.gpu))
        return self.file.path, self.file.header, self.file.fields, numbers


def origin(file: GpuFile) -> GpuFile:
    """Return the GPU as read from its file, whose numbers are concrete while JAX traces."""
    return file.origin if isinstance(file, Changed) else file


def traced(file: GpuFile) -> bool:
    """Whether JAX traces the numbers of this GPU, to differentiate, compile or vectorise."""
    return any(isinstance(x, Tracer) for x in file.numbers.values())


def changed(file: GpuFile, changes: Mapping[str, Any]) -> GpuFile:
    """Return a GPU with other numbers, see `GpuFile.replace`."""
    facts = {fact.field: fact for fact in file.fields}
    known = dict.fromkeys((*facts, *optional(), *file.numbers))
    for name, value in changes.items():
        if name not in known:
            raise DseError(f"{file.path}: {name}: unknown field, {one_of(name, known)}")
        if np.ndim(value) and not isinstance(value, Tracer):
            raise DseError(f"{file.path}: {name}: found an array {np.shape(value)}, expected one number")
        if isinstance(value, Tracer) and name.startswith("limits."):
            raise DseError(f"{file.path}: {name}: found a number that JAX traces, expected a whole one")
    if isinstance(file, Changed) or any(isinstance(value, Tracer) for value in changes.values()):
        dtype = origin(file).gpu.clock.dtype
        return Changed(
            origin(file), file.numbers | {name: jnp.asarray(x, dtype) for name, x in changes.items()}
        )
    for name, value in changes.items():
        number = np.asarray(value).item()
        if name in units():
            number = int(number) if np.isfinite(number) and number == int(number) else number
            facts[name] = Fact(name, number, units()[name], "replaced", "stated", None)
        else:
            field, _, key = name.rpartition(".")
            facts[field] = replace(
                facts[field], source="replaced", follows=rules.Rule(key, float(number)), spread=None
            )
    stated = [fact for fact in facts.values() if fact.follows != rules.DEFAULT_RULES.get(fact.field, ())]
    entries = {fact.field: FieldEntry.of(fact.table(), file.path, fact.field) for fact in stated}
    return build(file.path, file.header, entries, file.gpu.clock.dtype)


def _flatten(file: GpuFile) -> tuple[list[tuple[Any, dict[str, Any]]], _Origin]:
    return [(GetAttrKey("numbers"), dict(file.numbers))], _Origin(origin(file))


def _unflatten(static: _Origin, children: Any) -> Changed:
    [numbers] = children
    return Changed(static.file, numbers)


for kind in (GpuFile, Changed):
    jax.tree_util.register_pytree_with_keys(kind, _flatten, _unflatten)
