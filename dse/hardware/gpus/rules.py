"""Numbers of a GPU derived from others in its file, so that edits propagate.

A table of a GPU file states a value, or one of these keys instead:

- `lanes`, of an arithmetic pipe, a barrier or a load/store unit: threads of a warp / lanes;
- `bytes_per_cycle`, of shared memory and L1 (passes of 128 bytes) and of L2 (sectors of 32): bytes / bytes an
  SM transfers in a cycle;
- `bandwidth_share`, of DRAM: 32 bytes x SMs x clock / (share x DRAM bandwidth);
- `per_cycle`, of matrix products: 1 / multiply-adds of an SM in a cycle;
- `like`, and `times`: another field's value, times a number.

`issue_cycles` defaults to the larger of 1 / issue_limit and cpi.fp32.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from dse.types import MMA

SECTOR_BYTES, PASS_BYTES = 32, 128
INLINE_ECC = 1 / 16  # of GDDR, for the codes of ECC
CHANNEL_BITS = {  # of DRAM that turn to rows of their own: JEDEC standards
    "DDR3": 64, "DDR4": 64, "GDDR3": 32, "GDDR5": 32, "GDDR5X": 32, "GDDR6": 16, "GDDR6X": 16, "GDDR7": 8,
    "HBM": 128, "HBM2": 64, "HBM2e": 64, "HBM3": 32, "HBM3E": 32,
    "LPDDR4": 16, "LPDDR4X": 16, "LPDDR5": 16, "LPDDR5X": 16,
}  # fmt: skip
SHARES = 0.5, 1.02  # plausible shares of the DRAM bandwidth reached by streaming

# Returns the value of another field, in the unit of `dse.types`; it may be a JAX tracer.
Number = Callable[[str], Any]


class Rule(NamedTuple):
    """A derivation of a value from others."""

    key: str
    number: float  # the factor, for `like`
    field: str = ""  # for `like`
    note: str = ""  # the file's remark on the number


ALLOWED: Mapping[str, tuple[str, ...]] = {  # besides `like`
    "lanes": (
        *(f"cpi.{pipe}" for pipe in ("fp32", "fp64", "int32", "imul32", "sfu", "barrier")),
        "lsu_cycles",
    ),
    "bytes_per_cycle": ("cpi.shared", "cpi.l1", "cpi.l2"),
    "bandwidth_share": ("cpi.dram",),
    "per_cycle": tuple(f"cpi.{kind}" for kind in MMA),
}


DEFAULT_RULES = {"issue_cycles": Rule("left out", 1.0, "cpi.fp32")}  # of fields missing in a file


@cache
def keys_of(field: str) -> tuple[str, ...]:
    """List the rules that a field allows instead of a value."""
    keys = tuple(key for key, fields in ALLOWED.items() if field in fields)
    in_cycles = field.startswith(("cpi.", "latency.")) or field.endswith("_cycles")
    return (*keys, "like") if in_cycles else keys


def cycles(rule: Rule, field: str, number: Number, larger: Callable[[Any, Any], Any] = max) -> Any:
    """Compute the value of a field; pass JAX's maximum as `larger` while it traces. **Units:** cycles."""
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
    """Describe the derivation of a field's value."""
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
    """Return the share of the DRAM bandwidth that λ of DRAM corresponds to."""
    return _at_full_bandwidth(number) / number("cpi.dram")


def _at_full_bandwidth(number: Number) -> Any:
    """Cycles of one SM for a sector at full DRAM bandwidth."""
    return SECTOR_BYTES * number("sm_count") * number("clock") / number("dram_bandwidth")


def _bytes(field: str) -> int:
    return SECTOR_BYTES if field == "cpi.l2" else PASS_BYTES
