"""λ and Λ of tensor cores for each kind of product, from the rows of gpus/facts.

A kind that a card has no row for is one that it cannot do, and its file has no table of it.
"""

import sys
from math import log2

from gpu_facts import Card, Value, tidy

TOLERANCE = 0.025  # of data sheets, which round rates and clocks
PRODUCT = {  # multiply-adds of one warp instruction, all of which take 768 bytes of operands but DMMA
    "mma_fp16": 16 * 8 * 16,
    "mma_fp16_fp16": 16 * 8 * 16,
    "mma_tf32": 16 * 8 * 8,
    "mma_fp8": 16 * 8 * 32,
    "mma_fp8_fp16": 16 * 8 * 32,
    "mma_fp4": 16 * 8 * 64,
    "mma_int8": 16 * 8 * 32,
    "mma_fp64": 8 * 8 * 4,
}
FIRST_PRODUCT = 16 * 8 * 8  # of HMMA and IMMA on Volta (a set of four steps) and on Turing
WARP_PRODUCT = 16 * 8 * 16  # the unit of work of mma_warp
SUB_PARTITIONS = 4
MATRIX = {  # multiply-adds of one wave's instruction on AMD, of 16 x 16 sums: how long depends on the shape
    "mma_fp16": 16 * 16 * 16,
    "mma_fp16_fp16": 16 * 16 * 16,
    "mma_tf32": 16 * 16 * 8,
    "mma_fp32": 16 * 16 * 4,
    "mma_fp8": 16 * 16 * 32,
    "mma_fp4": 16 * 16 * 128,
    "mma_int8": 16 * 16 * 16,
    "mma_fp64": 16 * 16 * 4,
}
# Cycles for the bytes of mma_warp: small products take 1,024 of them in 8 cycles of one of four SIMDs.
FED = 768 / 512
_LIKE_ALL = ("mma_fp16", "mma_fp16_fp16")  # their Λ serves for other kinds


def tensor(card: Card) -> dict[str, Value]:
    """Compute λ and Λ of each kind of product of the card; none without tensor cores."""
    kinds = MATRIX if card.amd else PRODUCT
    rates = {kind: rate for kind in kinds if (rate := multiply_adds(card, kind))}
    if not rates:
        return {}
    cpi = {kind: _cpi(rate) for kind, rate in rates.items()}
    if card.amd:
        latency = {kind: _passes(card, kind, rate) for kind, rate in rates.items()}
        cpi["mma_warp"] = _fed(card, rates["mma_fp16"])
    else:
        latency = {kind: _latency(card, kind) for kind in rates}
        cpi["mma_warp"] = _warp_cpi(card, rates)
    latency["mma_warp"] = latency["mma_fp16"].like("latency.mma_fp16")
    return {f"cpi.{kind}": value for kind, value in cpi.items()} | {
        f"latency.{kind}": value for kind, value in latency.items()
    }


def multiply_adds(card: Card, kind: str) -> Value | None:
    """Return an SM's multiply-adds a cycle, a power of two."""
    stated = card.own(kind)
    if stated is None and kind in ("mma_fp16_fp16", "mma_fp8_fp16"):
        stated = card.own(kind.removesuffix("_fp16"))
    if stated is None:
        return None
    unit = card.best(kind, "mma_fp16")[0].unit
    if unit == "multiply-adds/cycle/SM":
        return stated
    mhz = card.own("clock_tensor") or card.need("clock_boost")
    rate = stated.value * 1e6 / (2 * card.sm_count * mhz.value)
    whole = 2 ** round(log2(rate))
    if abs(rate / whole - 1) > TOLERANCE:
        sys.exit(
            f"{card.key}: {kind}: found {tidy(rate)} multiply-adds a cycle and SM, expected a power of 2"
        )
    rule = f"{tidy(stated.value)} TFLOPS / (2 x {tidy(card.sm_count)} SMs x {tidy(mhz.value)} MHz)"
    return stated.derived(whole, f"{rule} is {tidy(rate)}", "multiply-adds/cycle/SM")


def _cpi(rate: Value) -> Value:
    return rate.follow(1 / rate.value, "per_cycle", rate.value, rate.rule)


def _warp_cpi(card: Card, rates: dict[str, Value]) -> Value:
    """λ of a warp-level instruction: measured, by the achieved share, or at the full rate.

    GeForce cards halve the rate of sums in fp32, not that at which registers feed the tensor cores. A share
    is taken of the card's own rate, an H20's a quarter of an H800's: FlashAttention 2 reaches two thirds of
    FlashAttention 3 there as well.
    """
    for what, cards in card.near():
        for other in cards:
            where = f" on {other.key} ({what})" if what else ""
            cycles, share = other.own("cpi_mma_warp"), other.own("mma_share")
            if cycles:
                return cycles.derived(cycles.value, f"as{where}") if where else cycles
            full = multiply_adds(card, "mma_fp16")
            if share and full:
                reached = f"({tidy(share.value)} % of {tidy(full.value)} a cycle)"
                rule = f"{WARP_PRODUCT} multiply-adds / {reached}{where}"
                return share.derived(WARP_PRODUCT / (share.value / 100 * full.value), rule)
    kind = max(("mma_fp16", "mma_fp16_fp16"), key=lambda kind: rates[kind].value)
    return _cpi(rates[kind]).like(f"cpi.{kind}", f"{WARP_PRODUCT} multiply-adds", WARP_PRODUCT)


def _passes(card: Card, kind: str, rate: Value) -> Value:
    """Λ on AMD: the busy time of a SIMD's matrix core; the compiler adds necessary pauses."""
    simds = card.need("simds_per_cu").value
    rule = f"{MATRIX[kind]} multiply-adds on one of {tidy(simds)} SIMDs"
    return rate.derived(MATRIX[kind] * simds / rate.value, rule)


def _fed(card: Card, rate: Value) -> Value:
    """λ of a wave's operands on AMD, which is not known to bind."""
    if card.family == "CDNA":
        return rate.derived(FED, "4 x 4 products: 1024 bytes of operands in 2 passes of 4 cycles, on 4 SIMDs")
    return _cpi(rate).like("cpi.mma_fp16", f"{WARP_PRODUCT} multiply-adds", WARP_PRODUCT)


def _product(card: Card, kind: str) -> int:
    """Multiply-adds of one instruction."""
    return FIRST_PRODUCT if card.capability.startswith("7.") else PRODUCT[kind]


def _busy(card: Card, kind: str) -> float | None:
    """Cycles for which an instruction occupies its sub-partition's tensor cores."""
    rate = multiply_adds(card, kind)
    return _product(card, kind) * SUB_PARTITIONS / rate.value if rate else None


def _latency(card: Card, kind: str) -> Value:
    """Λ of a warp-level instruction; wgmma's beyond its time in the pipe is assumed equal.

    A near card's, where it takes the tensor cores as long as here: of the same kind, then of fp16. Else that
    of fp16, and no less than a cycle more than the instruction takes the tensor cores.
    """
    busy = _busy(card, kind)
    assert busy is not None
    near, far = [*card.near(), *card.far()[:1]], card.far()[1:]
    for what, cards in near:
        for other in cards:
            for alike in (kind, *_LIKE_ALL):
                value = other.own(f"lat_{alike}")
                if value and _busy(other, alike) == busy:
                    return _as_on(value, other, alike, kind, what)
    for what, cards in [*near, *far]:
        for other in cards:
            for alike in _LIKE_ALL:
                value = other.own(f"lat_{alike}")
                if value and value.value > busy:
                    return _as_on(value, other, alike, kind, what)
                if value:
                    where = f" on {other.key}" if what else ""
                    rule = f"{tidy(busy)} cycles in the pipe and one; {tidy(value.value)} of {alike}{where}"
                    return value.derived(busy + 1, rule)
    sys.exit(f"{card.key}: no card lends a latency of {kind}")


def _as_on(value: Value, other: Card, alike: str, kind: str, what: str) -> Value:
    """Return the value of another card or kind, with a rule that states it."""
    words = [f"as {alike}"] * (alike != kind) + [f"on {other.key} ({what})"] * bool(what)
    return (
        value.derived(value.value, " ".join(words if alike != kind else ["as", *words])) if words else value
    )
