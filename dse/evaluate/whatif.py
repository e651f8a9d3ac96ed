"""What-if changes to a simulation, one at a time: `NAME=VALUE`.

For a kernel on a GPU:

- `CLASS.lambda`, `CLASS.Lambda` (fp32, sfu, dram, ...): cycles, or a factor with a trailing x;
  `tensor` means all kinds of matrix products, and takes a factor only;
- `issue_limit`: instructions a cycle;
- `conflicts=off`: one pass for each shared memory access; `barriers=off`: no barriers;
  `uncoalesced=off`: global accesses move only the bytes requested; `dram=off`: all L2 accesses hit;
- `blocks`: resident on an SM; `scheduler`, `order`.

For a graph: `SUBSYSTEM.lambda`, `SUBSYSTEM.Lambda`, `issue_limit`, `warps`, `slots`, `groups`, `scheduler`,
`order`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dse.errors import DseError, check_names
from dse.simulator import Case
from dse.simulator.case.program import ORDERS, SCHEDULERS
from dse.simulator.pipeline import Settings
from dse.types import CLASSES, TENSOR, Gpu, Kernel, Launch

SWITCHES = ("conflicts", "barriers", "uncoalesced", "dram")
TERMS = {"lambda": "cpi", "Lambda": "latency"}
CHOICES = {"scheduler": SCHEDULERS, "order": ORDERS}


@dataclass(frozen=True)
class Setup:
    """The inputs of a kernel's simulation."""

    gpu: Gpu
    kernel: Kernel
    launch: Launch
    settings: Settings


def split(text: str) -> tuple[str, str]:
    """Split a change into NAME and VALUE. **Raises:** DseError for another form."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals and value):
        raise DseError(f"what_if: found {text!r}, expected NAME=VALUE")
    return name, value


def of_kernel(setup: Setup, text: str) -> Setup:
    """Apply one change to a setup. **Raises:** DseError for an unknown or invalid change."""
    name, value = split(text)
    where = f"what_if: {text}"
    name, field = (part.strip() for part in name.partition(".")[::2])
    gpu, kernel, launch = setup.gpu, setup.kernel, setup.launch
    if field:
        check_names(where, (*CLASSES, "tensor"), name)
        check_names(where, TERMS, field)
        if name == "tensor" and not value.endswith("x"):
            raise DseError(f"{where}: found {value}, expected a factor of its cycles, as in 2x")
        per_class = getattr(gpu, TERMS[field])
        classes = TENSOR if name == "tensor" else (name,)
        new = {pipe: _number(value, where, getattr(per_class, pipe)) for pipe in classes}
        return replace(setup, gpu=replace(gpu, **{TERMS[field]: replace(per_class, **new)}))
    check_names(where, (*SWITCHES, "issue_limit", "blocks", *CHOICES), name)
    if name in CHOICES:
        check_names(where, CHOICES[name], value)
        return replace(setup, settings=replace(setup.settings, **{name: value}))
    if name == "issue_limit":
        return replace(setup, gpu=replace(gpu, issue_limit=_number(value, where, gpu.issue_limit, above=0.0)))
    if name == "blocks":
        blocks = _number(value, where, launch.resident_blocks, above=0.0)
        if float(blocks) % 1:
            raise DseError(f"{where}: found {value}, expected a whole number of blocks")
        total = launch.resident_blocks * launch.waves
        return replace(setup, launch=replace(launch, resident_blocks=blocks, waves=total / blocks))
    check_names(where, ("off",), value)
    return replace(setup, kernel=_without(name, kernel))


def _without(name: str, kernel: Kernel) -> Kernel:
    work = kernel.work
    match name:
        case "conflicts":
            return replace(kernel, work=replace(work, shared=jnp.minimum(work.shared, kernel.shared_insts)))
        case "barriers":
            return replace(kernel, work=replace(work, barrier=0 * work.barrier))
        case "dram":
            return replace(kernel, work=replace(work, dram=0 * work.dram))
    # Uncoalesced: scale the traffic of all levels to the bytes requested.
    sectors, requested = kernel.sectors, kernel.mem_insts * kernel.bytes_per_access / 32
    share = jnp.where(sectors > requested, requested / jnp.where(sectors > 0, sectors, 1.0), 1.0)
    work = replace(work, l1=work.l1 * share, l2=work.l2 * share, dram=work.dram * share)
    return replace(kernel, work=work, sectors=sectors * share, uncoal_insts=0 * kernel.uncoal_insts)


def of_graph(case: Case, subsystems: Sequence[str], text: str) -> Case:
    """Apply one change to a case. **Raises:** DseError for an unknown or invalid change."""
    name, value = split(text)
    where = f"what_if: {text}"
    name, field = (part.strip() for part in name.partition(".")[::2])
    if field:
        check_names(where, subsystems, name)
        check_names(where, TERMS, field)
        number = list(subsystems).index(name)
        attribute = {"lambda": "throughput_cycles", "Lambda": "latency_cycles"}[field]
        programs = []
        for program in case.programs:
            old = getattr(program, attribute)
            new = np.where(program.subsystem == number, _number(value, where, old), old)
            programs.append(replace(program, **{attribute: new}))
        return replace(case, programs=tuple(programs))
    check_names(where, ("issue_limit", "warps", "slots", "groups", *CHOICES), name)
    if name in CHOICES:
        check_names(where, CHOICES[name], value)
        return replace(case, **{name: value})
    number = float(_number(value, where, np.asarray(float(getattr(case, name))), above=0.0))
    if name == "issue_limit":
        return replace(case, issue_limit=number)
    if number % 1:
        raise DseError(f"{where}: found {value}, expected a whole number")
    changed: Mapping[str, int] = {name: int(number)}
    if name == "slots":
        changed = {"slots": int(number), "groups": max(case.groups, int(number))}
    try:
        return replace(case, **changed)
    except DseError as error:
        raise DseError(f"{where}: {error}") from None


def _number(value: str, where: str, old: Array | np.ndarray, above: float | None = None) -> np.ndarray:
    """Parse a number, or a factor of the old one, in the shape and type of the old one."""
    times = value.endswith("x")
    try:
        number = float(value.removesuffix("x"))
    except ValueError:
        raise DseError(f"{where}: found {value!r}, expected a number, or one with an x") from None
    if not np.isfinite(number) or number < 0 or (above is not None and number <= above):
        allowed = "0 or more" if above is None else f"above {above:g}"
        raise DseError(f"{where}: found {value}, expected a finite number, {allowed}")
    # In NumPy, since JAX would round a graph's numbers to its own precision.
    old = np.asarray(old)
    return np.asarray(old * number if times else np.full_like(old, number), old.dtype)
