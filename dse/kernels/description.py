"""A described kernel: the work of a warp and the resources of a block, as expressions of the parameters.

Evaluated in NumPy on many configurations at once; only subscripts of accesses are compiled.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dse.core.precision import in_64_bits
from dse.core.progress import Progress, silent
from dse.core.space.expression import Expression, parse
from dse.core.space.space import Space
from dse.errors import DseError, one_of
from dse.hardware.gpus import column
from dse.hardware.memory import safe_divide
from dse.kernels.counts import Alias, Counted, KnownBatch, Number, sizes_of
from dse.kernels.phases import phase_of
from dse.kernels.symbolic.average import average_access
from dse.kernels.symbolic.conditions import Condition, published, share
from dse.kernels.symbolic.subscript import Subscript
from dse.types import ARITHMETIC, TENSOR, Gpu, Kernel, PerClass, Resources

Expressions = tuple[tuple[str, Expression], ...]

_OF_GPU = ("l1_bytes", "l2_bytes", "memory_cache_bytes", "sm_count")
_OF_LIMITS = ("warp_size", "registers_per_sm", "threads_per_sm")
_OF_COMPILER = ("compiler_registers", "guard_branches", "shared_unaligned")
GPU_NAMES = (*_OF_LIMITS, "amd", *_OF_GPU, *_OF_COMPILER)  # of the GPU, usable in expressions
LAUNCH_FIELDS = ("threads", "blocks", "registers", "shared_bytes")
DYNAMIC = "dynamic_shared_bytes"  # the part of shared_bytes that the launch adds
LAUNCH_NAMES = (*LAUNCH_FIELDS, DYNAMIC, "warps")  # of the launch, usable in expressions
SHAPE_FIELDS = ("threads_x", "threads_y", "threads_z")  # of a block, for subscripts
WARP_FIELDS = (*ARITHMETIC, *TENSOR, "barrier", "ilp", "mlp")
WARP_DEFAULTS = {"ilp": 1, "mlp": 1}  # 0 for the rest

_PIPES = ("shared", "l1", "l2", "dram")
_INSTS = ("shared_insts", "load_insts", "store_insts", "uncoal_insts")
_SUMS = (*_PIPES, *_INSTS, "sectors", "uncoal_sectors", "bytes")  # summed over the accesses of a warp
_AT_LEAST_ONE = ("launch.threads", "launch.blocks", "launch.registers", "warp.ilp", "warp.mlp")
_INT32 = np.iinfo(np.int32)
_RESIDUES = 32  # of an unknown size: banks of shared memory, elements of a line


@dataclass(frozen=True)
class Access:
    """One memory instruction of the source."""

    name: str
    space: str  # "global" or "shared"
    op: str  # "load" or "store"
    fields: Expressions  # of the file: count, bytes, sectors, passes, ...
    subscript: Subscript | None = None  # determines sectors and passes that are not stated
    loops: tuple[str, ...] = ()  # loop indices in the subscript
    phase: str = ""  # its phase; "" for the last


@dataclass(frozen=True)
class PhaseExpressions:
    """Work of a warp in a phase, from one barrier to the next, without its accesses."""

    name: str
    fields: Expressions  # the stated ones of WARP_FIELDS
    passes: Expression | None = None  # executions by an average warp; None: one


@dataclass(frozen=True)
class ArrayArgument:
    """An array argument of a kernel."""

    size: Expression  # elements
    type: str  # of an element, NumPy's name
    values: Expression | None  # of `index` and of `random` in [0, 1); None if nothing depends on them


UNKNOWN_ARRAY = ArrayArgument(parse(0, "array"), "uint8", None)  # of unknown size and contents


@dataclass(frozen=True, eq=False)
class Contents:
    """An array argument of a kernel with its actual contents."""

    array: np.ndarray

    @property
    def digest(self) -> str:
        """A hash of the contents."""
        return hashlib.sha256(np.ascontiguousarray(self.array).tobytes()).hexdigest()

    def __repr__(self) -> str:
        return f"Contents({self.array.dtype}, {self.array.size}, {self.digest})"


@dataclass(frozen=True)
class DescriptorArgument:
    """A tensor descriptor argument of a kernel; the contents of its array are unknown."""

    type: str  # of an element, Triton's name: fp16
    shape: tuple[Expression, ...]  # elements, the contiguous axis last
    strides: tuple[Expression, ...]  # elements
    block: tuple[Expression, ...]  # elements loaded or stored at a time


def row_major(shape: Sequence[Expression], where: str) -> tuple[Expression, ...]:
    """Return the strides of an array without gaps, in elements. **Raises:** DseError naming `where`."""
    inner = (" * ".join(f"({size.text})" for size in shape[axis + 1 :]) or 1 for axis in range(len(shape)))
    return tuple(parse(stride, where) for stride in inner)


@dataclass(frozen=True)
class Members:
    """A structure passed by value; its members are arguments of their own, after those of the kernel."""

    size: int  # bytes
    places: tuple[tuple[int, int], ...]  # of each member: offset, bytes


@dataclass(frozen=True)
class Build:
    """How a kernel's source is compiled and launched."""

    kernel: str  # the function; "" for the only one in the file
    defines: Expressions  # macros: the parameters in upper case, and others
    block: tuple[Expression, ...]  # threads along x, y, z
    grid: tuple[Any, ...]  # blocks: expressions, or callables like them
    arguments: tuple["StatedArgument", ...]
    options: tuple[str, ...] = ()  # of the compiler
    shared_bytes: Expression | None = None  # dynamic shared memory of a block; None: not stated
    types: tuple[str, ...] = ()  # of the arguments, Triton's names; "": inferred from the value


# A tuple holds the parts of a vector; None: not stated.
StatedArgument = (
    Expression | ArrayArgument | Contents | DescriptorArgument | Members | tuple[Expression, ...] | None
)


@dataclass(frozen=True)
class Description:
    """A validated kernel.toml, or a kernel known only by its source, see `described`.

    Hashable, for static arguments of jitted functions.
    """

    name: str
    path: Path  # of the kernel.toml or other file, for messages
    source: Path | None
    variant_of: str  # its work: kernels with the same work are variants
    space: Space
    summary: str = ""
    problem: tuple[tuple[str, Number], ...] = ()  # default sizes
    let: Expressions = ()
    launch: Expressions = ()
    warp: Expressions = ()
    accesses: tuple[Access, ...] = ()
    branches: tuple[Condition, ...] = ()
    # In order; the last has the remaining work. Empty: unknown.
    phases: tuple[PhaseExpressions, ...] = ()
    spaces: tuple[Alias, ...] = ()
    build: Build | None = None
    shape: Expressions = ()  # threads_x, threads_y, threads_z, if stated
    assumptions: tuple[str, ...] = ()  # for information missing in the file, in words for the user

    @property
    def described(self) -> bool:
        """Whether it has expressions of its launch and warps, and not only source."""
        return bool(self.launch)

    def sizes(self, **changed: Number) -> dict[str, Number]:
        """Return the problem sizes with changes. **Raises:** DseError for an unknown size."""
        return sizes_of(self, changed)

    def with_changed(
        self, changed: Mapping[str, Number | Sequence[Number]], where: str = "values"
    ) -> tuple["Description", dict[str, Any]]:
        """Return the kernel with other values of its parameters, one or several, and its sizes with changes.

        **Raises:** DseError that begins with `where` for a name that is neither parameter nor size.
        """
        sizes = dict(self.problem)
        values: dict[str, Sequence[Number]] = {}
        for name, value in changed.items():
            if name in sizes:
                continue
            if name not in self.space.names:
                known = one_of(name, [*self.space.names, *sizes])
                raise DseError(f"{where}: {self.name}: found {name!r}, {known}")
            values[name] = value if isinstance(value, Sequence) else (value,)
        space = self.space.with_values(values, where) if values else self.space
        return replace(self, space=space), {name: changed.get(name, sizes[name]) for name in sizes}

    def count(
        self,
        parameters: Mapping[str, np.ndarray],
        gpus: Gpu,
        problem: Mapping[str, Number] | None = None,
        progress: Progress = silent,
    ) -> Counted:
        """Count configurations by the expressions, which are evaluated when the counts are used.

        **Shapes and errors:** as `dse.kernels.counts.Counts.count`; DseError for a kernel known only by its
        source.
        """
        _expect_described(self)
        return Counted(DescribedBatch(self, parameters, self.sizes(**(problem or {})), column(gpus)))


@dataclass(frozen=True)
class DescribedBatch:
    """Configurations of a described kernel, evaluated when they are taken."""

    description: Description
    parameters: Mapping[str, np.ndarray]  # [L]
    problem: Mapping[str, Number]
    gpus: Gpu  # fields [G, 1]

    def take(self, index: np.ndarray) -> KnownBatch:
        """Count the configurations at `index`."""
        columns = {name: values[None, index] for name, values in self.parameters.items()}
        return KnownBatch.of(*describe(self.description, columns, self.problem, self.gpus), len(index))


def describe(
    description: Description, parameters: Mapping[str, Any], problem: Mapping[str, Any], gpu: Gpu
) -> tuple[Kernel, Resources]:
    """Count the kernel and the resources of each configuration, on each GPU, in NumPy.

    **Shapes:** parameters [1, L] with GPU fields [G, 1], or [L] with scalar fields; sizes are scalars. A
    field that depends on neither stays a scalar.
    **Units:** counts of one warp; float fields have 64 bits.
    **Edges:** sizes missing in `problem` take their defaults. Fractional resources are rounded up. Resources
    beyond 32 bits are clipped to 2^31 - 1, above every limit of a block; so is the number of blocks.
    **Raises:** DseError for a kernel known only by its source.
    """
    _expect_described(description)
    counts: dict[str, Any] = {name: WARP_DEFAULTS.get(name, 0) for name in WARP_FIELDS}
    with np.errstate(all="ignore"):  # a NaN is never launchable
        names = evaluated_names(description, parameters, problem, gpu)
        counts |= {name: expression(names, np) for name, expression in description.warp}
        accessed = [_accessed(description, access, names) for access in description.accesses]
        kernel = _kernel(counts, accessed)
        if description.phases:
            parts = _phases(description, names, counts, accessed)
            passes = [phase.passes(names, np) if phase.passes else 1 for phase in description.phases]
            phases = (phase_of(gpu, *part) for part in zip(parts, passes, strict=True))
            kernel = replace(kernel, phases=tuple(phases))
    static = names["shared_bytes"] - names[DYNAMIC]
    with in_64_bits():
        fields = {name: _int32(names[name]) for name in LAUNCH_FIELDS}
        return kernel, Resources(**fields, static_shared_bytes=_int32(static))


def evaluated_names(
    description: Description, parameters: Mapping[str, Any], problem: Mapping[str, Any], gpu: Gpu
) -> dict[str, Any]:
    """Evaluate every name usable in expressions of a warp or an access, in NumPy.

    **Shapes:** parameters and GPU fields broadcast.
    **Edges:** a kernel known only by its source has no names of the launch.
    """
    names = dict(description.problem) | dict(problem) | dict(parameters)
    names |= gpu_names(gpu)
    for name, expression in description.let:
        names[name] = expression(names, np)
    launch = {name: _rounded_up(expression(names, np)) for name, expression in description.launch}
    names |= {"shared_bytes": np.asarray(0), DYNAMIC: np.asarray(0)} | launch
    if description.described:
        names["warps"] = -(-names["threads"] // names["warp_size"])
    if description.branches:
        block = _shape(description, names)
        names |= {branch.name: share(branch, names, block) for branch in description.branches}
    return names


def gpu_names(gpu: Gpu) -> dict[str, Any]:
    """Return the values of GPU_NAMES, in the shape of the GPU's fields."""
    names = {name: getattr(gpu, name) for name in (*_OF_GPU, *_OF_COMPILER)}
    names |= {name: np.asarray(getattr(gpu.limits, name), int) for name in _OF_LIMITS}
    names["amd"] = np.asarray(np.asarray(gpu.compute_capability) == 0, int)
    return names


def check(description: Description, gpu: Gpu, sample: int = 10_000, **changed: Number) -> None:
    """Evaluate a sample of the space and look for impossible counts: mistakes in the description.

    **Shapes:** GPU fields are scalars or [G, 1]. `changed` are problem sizes.
    **Raises:** DseError that names the field, the value, and a configuration; or if the sample has no valid
    configuration, or the kernel is known only by its source.
    """
    _expect_described(description)
    problem = description.sizes(**changed)
    parameters = _sample(description, problem, sample)
    row = {name: values[np.newaxis] for name, values in parameters.items()}
    with np.errstate(invalid="ignore"):  # a NaN becomes a negative integer, detected below
        names = evaluated_names(description, row, problem, gpu)
    fields = {f"launch.{name}": names[name] for name, _ in description.launch}
    fields |= {f"warp.{name}": expression(names, np) for name, expression in description.warp}
    for phase in description.phases:
        stated = phase.fields + ((("passes", phase.passes),) if phase.passes else ())
        fields |= {f"phase.{phase.name}.{name}": value(names, np) for name, value in stated}
    for access in description.accesses:
        fields |= {f"access.{access.name}.{name}": value(names, np) for name, value in access.fields}
    for name, value in fields.items():
        value, lowest = np.asarray(value, float), int(name in _AT_LEAST_ONE)
        wrong = ~(np.isfinite(value) & (value >= lowest))
        if wrong.any():
            actual = value[wrong][0]
            # The last axis is that of configurations, unless the value is the same for all.
            column = np.argwhere(wrong)[0][-1] if value.ndim and value.shape[-1] > 1 else 0
            at = ", ".join(f"{key}={values[column]}" for key, values in parameters.items())
            raise DseError(f"{description.path}: {name}: found {actual:g} at {at}, expected {lowest} or more")


def symbolic_rows(
    description: Description, parameters: Mapping[str, Any], gpu: Gpu, **changed: Number
) -> Iterator[dict[str, Any]]:
    """Yield the results of symbolic evaluation: for each branch its share of warps, also by Eq. 12; for each
    access by subscript its cost at these sizes, and over the residues of each size in it.

    **Shapes:** scalars. **Units:** 32-byte sectors of global, passes of shared memory.
    **Source:** Baghsorkhi et al., PPoPP 2010, Secs. 3.1 and 3.3.
    """
    problem = description.sizes(**changed)
    names = evaluated_names(description, parameters, problem, gpu)
    block = _shape(description, names)
    for branch in description.branches:
        row = {"name": branch.name, "counted": "share of warps", "value": float(names[branch.name])}
        yield row | {"equation_12": published(branch, names, block)}
    for access in description.accesses:
        if access.subscript is None:
            continue
        counted = "passes" if access.space == "shared" else "sectors"
        cost = partial(_cost, description, access, access.subscript, counted)
        row = {"name": access.name, "counted": counted, "value": float(cost(names))}
        unknown = [size for size in problem if _depends(description, access.subscript.index.names, size)]
        for size in unknown:
            residues = int(problem[size]) // _RESIDUES * _RESIDUES + np.arange(_RESIDUES)
            rows = {name: np.full(_RESIDUES, value) for name, value in parameters.items()}
            costs = cost(evaluated_names(description, rows, problem | {size: residues}, gpu))
            ends = {"least": costs.min(), "mean": costs.mean(), "most": costs.max()}
            yield row | {"unknown": size} | {name: float(value) for name, value in ends.items()}
        if not unknown:
            yield row


def _cost(
    description: Description, access: Access, subscript: Subscript, counted: str, names: Mapping[str, Any]
) -> np.ndarray:
    return _subscript_costs(access, subscript, _shape(description, names), names)[counted]


def _depends(description: Description, names: Collection[str], size: str) -> bool:
    """Whether an expression of these names depends on a size, directly or through [let]."""
    let = dict(description.let)
    return size in names or any(_depends(description, let[name].names, size) for name in names if name in let)


def _expect_described(description: Description) -> None:
    if not description.described:
        raise DseError(
            f"{description.path}: launch: found none, expected expressions; this kernel is known by its"
            " source only"
        )


def _kernel(warp: Mapping[str, Any], accessed: Sequence[Mapping[str, Any]]) -> Kernel:
    """Combine WARP_FIELDS and the accesses of a warp."""
    counts: dict[str, Any] = dict(warp) | {"other_insts": 0}
    counts |= {name: sum((part.get(name, 0.0) for part in accessed), np.asarray(0, float)) for name in _SUMS}
    insts = counts["load_insts"] + counts["store_insts"]
    counts["bytes_per_access"] = safe_divide(counts.pop("bytes"), insts, xp=np)
    sectors, uncoalesced = counts.pop("uncoal_sectors"), counts["uncoal_insts"]
    counts["transactions_per_uncoal"] = safe_divide(sectors, uncoalesced, 1.0, np)
    counts = {name: np.asarray(value, float) for name, value in counts.items()}
    with in_64_bits():
        work = PerClass(**{name: counts.pop(name) for name in PerClass.__dataclass_fields__})
        return Kernel(work=work, **counts)


def _phases(
    description: Description,
    names: Mapping[str, Any],
    warp: Mapping[str, Any],
    accessed: Sequence[Mapping[str, Any]],
) -> list[Kernel]:
    """Split a warp's work by phases. The last has what the others leave of `warp`."""
    left, parts, last = dict(warp), list[Kernel](), description.phases[-1].name
    for phase in description.phases:
        stated = {name: np.asarray(expression(names, np), float) for name, expression in phase.fields}
        if phase.name == last:
            counts = left | stated
        else:
            counts = {name: WARP_DEFAULTS.get(name, 0) for name in WARP_FIELDS} | stated
            left |= {
                name: np.maximum(left[name] - value, 0)
                for name, value in stated.items()
                if name not in WARP_DEFAULTS
            }
        of_phase = zip(description.accesses, accessed, strict=True)
        parts.append(
            _kernel(counts, [part for access, part in of_phase if (access.phase or last) == phase.name])
        )
    return parts


def _accessed(description: Description, access: Access, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the contributions of an access to _SUMS."""
    stated = {name: np.asarray(expression(names, np), float) for name, expression in access.fields}
    if access.subscript is not None:
        stated = _subscript_costs(access, access.subscript, _shape(description, names), names) | stated
    count = stated["count"]
    requested = np.asarray(names["warp_size"], float) * stated.get("bytes", 4.0)  # bytes of a warp access
    if access.space == "shared":
        passes = stated["passes"] if "passes" in stated else np.maximum(requested / 128.0, 1.0)
        return {"shared": count * passes, "shared_insts": count}
    coalesced = requested / 32.0
    sectors = stated.get("sectors", coalesced)
    # The L1 looks up lines, and delivers 128 bytes a pass to threads, even if all load the same.
    passes = stated["passes"] if "passes" in stated else np.maximum(np.maximum(sectors, coalesced) / 4.0, 1.0)
    scattered = np.asarray(stated.get("uncoalesced", sectors > 2.0 * coalesced), float)
    l2 = stated.get("l2_sectors", count * sectors)
    counted = {f"{access.op}_insts": count, "uncoal_insts": count * scattered, "sectors": count * sectors}
    counted |= {"uncoal_sectors": count * scattered * sectors, "bytes": count * requested}
    return counted | {"l1": count * passes, "l2": l2, "dram": stated.get("dram_sectors", l2)}


def _shape(description: Description, names: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Threads of a block along x, y and z; by default x has all of them, else z the rest."""
    stated = {name: _rounded_up(expression(names, np)) for name, expression in description.shape}
    threads, unit = names["threads"], np.asarray(1)
    x = stated.get("threads_x", threads)
    y = stated.get("threads_y", unit)
    return x, y, stated.get("threads_z", np.maximum(threads // (x * y), 1))


def _subscript_costs(
    access: Access, subscript: Subscript, shape: tuple[Any, Any, Any], names: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Count `passes` and, for global accesses, `sectors`, lane by lane."""
    size = dict(access.fields).get("bytes")
    width = 4 if size is None else int(size(names, np)) if not size.names else size(names, np)
    used = {name: np.asarray(value) for name, value in names.items() if name in subscript.index.names}
    shared = access.space == "shared"
    return average_access(subscript.index, access.loops, used, shape, names["warp_size"], width, shared)


def _rounded_up(value: Any) -> Any:
    return np.asarray(np.ceil(value) if value.dtype.kind == "f" else value, int)


def _int32(value: Any) -> np.ndarray:
    return np.asarray(np.clip(value, _INT32.min, _INT32.max), np.int32)


def _sample(description: Description, problem: Mapping[str, Number], count: int) -> dict[str, np.ndarray]:
    """Draw valid configurations of a space: all of a small one, else random ones."""
    space = description.space
    rng, tries = np.random.default_rng(0), 10 * count
    for _ in range(10):
        index = rng.permutation(space.size) if space.size <= tries else rng.integers(0, space.size, tries)
        parameters = {name: np.asarray(values) for name, values in space.decode(index, np).items()}
        valid = np.broadcast_to(space.valid(parameters, problem, np), index.shape)
        if valid.any():
            return {name: values[valid][:count] for name, values in parameters.items()}
    raise description.space.emptiness(description.name, problem)
