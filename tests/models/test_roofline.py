"""Roofline, against the largest α λ."""

from points import equals_reference, lumped

from dse.models.roofline import predict
from dse.types import CLASSES, TENSOR

PIPES = (*(name for name in CLASSES if name not in TENSOR), "lsu", "tensor")


def reference(p):
    slowest, name = 0.0, PIPES[0]
    for pipe, busy in lumped(p).busy.items():
        if busy > slowest:
            slowest, name = busy, pipe
    cycles = slowest * p.warps_per_block * p.resident_blocks * p.waves
    terms = {f"{pipe} term": cycles if pipe == name else 0.0 for pipe in PIPES}
    # where L1 and shared memory are one and only the latter works, both are as busy: the first takes it
    tied = p.l1_with_shared and name in ("shared", "l1") and not p.work_l1
    return name, {"cycles": cycles} | ({} if tied else terms)


def test_equals_the_paper_in_plain_python():
    equals_reference(predict, reference, set(PIPES))
