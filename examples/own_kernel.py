"""A kernel of one's own as a Python function: what a warp does, by parameters."""

import dse
from dse.core.space import Space
from dse.kernels.counts import OwnKernel
from dse.types import CLASSES, Kernel, PerClass, Resources

SPACE = Space({"block": (64, 128, 256, 512), "items": (1, 2, 4)}, constraints=("block * items <= 1024",))


def counted(parameters, gpus, sizes):
    block, items = parameters["block"], parameters["items"]
    none = dict.fromkeys(CLASSES, 0.0)
    work = PerClass(**none | {"fp32": items, "l1": 2 * items, "l2": 8 * items, "dram": 8 * items})
    accesses = {"load_insts": items, "store_insts": items, "uncoal_insts": 0, "sectors": 8 * items}
    shape = {"shared_insts": 0, "transactions_per_uncoal": 1, "bytes_per_access": 128}
    blocks = -(-sizes["n"] // (block * items))
    resources = Resources(threads=block, blocks=blocks, registers=32, shared_bytes=0)
    return Kernel(work=work, ilp=items, mlp=items, **accesses, **shape), resources  # type: ignore


def main() -> None:
    scale = OwnKernel("scale", SPACE, counted, problem=(("n", 2**24),))
    print(dse.rank(scale, "a100").best)


if __name__ == "__main__":
    main()
