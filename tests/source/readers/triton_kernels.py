"""Triton kernels that tests read, as a user's file has them."""

import triton
import triton.language as tl


@triton.jit
def gather(
    out,
    x,
    ids,
    count,
    rows,
    BLOCK: tl.constexpr,
    SCALE: tl.constexpr = 2,  # type: ignore[assignment]
    KIND: tl.constexpr = None,  # type: ignore[assignment]
):
    if tl.program_id(0) >= tl.load(count):
        return
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < rows
    values = tl.load(x + tl.load(ids + at, mask=inside), mask=inside)
    if KIND == "negative":
        values = -values
    tl.store(out + at, values * SCALE, mask=inside)


@triton.jit
def move(out, x, rows, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    at = tl.program_id(0) * BLOCK_M
    out.store([at, 0], x.load([at, 0]))


def fits(configs, named_args, **kwargs):
    return [config for config in configs if config.kwargs["BLOCK"] <= named_args["n"]]


@triton.autotune(
    [
        triton.Config({"BLOCK": block}, num_warps=warps)
        for block, warps in ((256, 4), (512, 4), (512, 8), (4096, 8))
    ],
    key=["n"],
    prune_configs_by={"early_config_prune": fits},
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def add(out, x, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out + at, tl.load(x + at) + 1.0)
    else:
        tl.store(out + at, tl.load(x + at, mask=at < n) + 1.0, mask=at < n)


@triton.jit
def compact(out, x, kept, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < 4096)
    keep = tl.load(kept + at, mask=at < 4096).to(tl.int1)
    tl.store(out + tl.cumsum(keep.to(tl.int32), 0) - 1, values, mask=(at < 4096) & keep)


@triton.jit
def pick(out, x, chosen, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=tl.load(chosen + at) > 0.5, other=0.0))


@triton.jit
def look_up(out, x, table, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = (tl.abs(tl.load(x + at)) * 15.0).to(tl.int32)
    tl.store(out + at, tl.load(table + index, at < 4000))
