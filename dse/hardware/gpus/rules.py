"""Numbers of a GPU that follow from others in its file: what is edited moves all that depends on it.

A table of a GPU file states a value, or one of these keys in its place:

- `lanes`, of an arithmetic pipe, a barrier or a load/store unit: threads of a warp / lanes;
- `bytes_per_cycle`, of shared memory and L1 (passes of 128 bytes) and of L2 (sectors of 32): bytes / what an
  SM takes in a cycle;
- `bandwidth_share`, of DRAM: 32 bytes x SMs x clock / (share x DRAM bandwidth);
- `per_cycle`, of matrix products: 1 / multiply-adds of an SM in a cycle;
- `like`, and `times`: another field's value, times a number.

Without a table of `issue_cycles` it is the larger of 1 / issue_limit and cpi.fp32.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

SECTOR_BYTES, PASS_BYTES = 32, 128
SHARES = 0.5, 1.02  # of the DRAM bandwidth that streaming reaches: beyond these a file contradicts itself

Number = Callable[
    [str], Any
]  # the value of another field, in the unit of `dse.types`: also one that JAX traces


class Rule(NamedTuple):
    """How a value follows from others."""

    key: str
    number: float  # with `like`, how many times
    field: str = ""  # with `like`
    note: str = ""  # of the file: where the number is from


ALLOWED: Mapping[str, tuple[str, ...]] = {  # beside `like`
    "lanes": (
        *(f"cpi.{pipe}" for pipe in ("fp32", "fp64", "int32", "imul32", "sfu", "barrier")),
        "lsu_cycles",
    ),
    "bytes_per_cycle": ("cpi.shared", "cpi.l1", "cpi.l2"),
    "bandwidth_share": ("cpi.dram",),
    "per_cycle": tuple(
        f"cpi.mma_{kind}" for kind in ("fp16", "fp16_fp16", "tf32", "fp32", "fp8", "int8", "fp64")
    ),
}


LEFT_OUT = {"issue_cycles": Rule("left out", 1.0, "cpi.fp32")}  # what a file need not have


@cache
def keys_of(field: str) -> tuple[str, ...]:
    """List the keys that may be in place of a field's value."""
    keys = tuple(key for key, fields in ALLOWED.items() if field in fields)
    in_cycles = field.startswith(("cpi.", "latency.")) or field.endswith("_cycles")
    return (*keys, "like") if in_cycles else keys


def cycles(rule: Rule, field: str, number: Number, larger: Callable[[Any, Any], Any] = max) -> Any:
    """Compute the value of a field; `larger` of two numbers is JAX's where it traces. **Units:** cycles."""
    match rule.key:
        case "lanes":
            return number("limits.warp_size") / rule.number
        case "bytes_per_cycle":
            return _bytes(field) / rule.number
        case "bandwidth_share":
            return _at_full_bandwidth(number) / rule.number
        case "per_cycle":
            return 1 / rule.number
        case "left out":
            return larger(1 / number("issue_limit"), number("cpi.fp32"))
        case _:
            return rule.number * number(rule.field)


def in_words(rule: Rule, field: str, number: Number) -> str:
    """Say how the value of a field follows."""
    return _formula(rule, field, number) + (f": {rule.note}" if rule.note else "")


def _formula(rule: Rule, field: str, number: Number) -> str:
    match rule.key:
        case "lanes":
            return f"{number('limits.warp_size'):g} threads / {rule.number:g} lanes"
        case "bytes_per_cycle":
            return f"{_bytes(field)} B / {rule.number:.4g} B a cycle of an SM"
        case "bandwidth_share":
            sms, clock, bandwidth = (number(name) for name in ("sm_count", "clock", "dram_bandwidth"))
            reached = f"({100 * rule.number:.4g} % of {bandwidth / 1e9:.4g} GB/s)"
            return f"{SECTOR_BYTES} B x {sms:g} SMs x {clock / 1e6:.4g} MHz / {reached}"
        case "per_cycle":
            return f"1 / {rule.number:g} multiply-adds a cycle of an SM"
        case "left out":
            slot, pipe = 1 / number("issue_limit"), number("cpi.fp32")
            return f"the larger of 1 / issue_limit, {slot:.4g}, and cpi.fp32, {pipe:.4g}"
        case _:
            return f"{rule.field} x {rule.number:g}" if rule.number != 1 else f"as {rule.field}"


def bandwidth_share(number: Number) -> float:
    """Return the share of the DRAM bandwidth that λ of DRAM amounts to."""
    return _at_full_bandwidth(number) / number("cpi.dram")


def _at_full_bandwidth(number: Number) -> Any:
    """Cycles of one SM for a sector, if streaming reached all of the bandwidth."""
    return SECTOR_BYTES * number("sm_count") * number("clock") / number("dram_bandwidth")


def _bytes(field: str) -> int:
    return SECTOR_BYTES if field == "cpi.l2" else PASS_BYTES
