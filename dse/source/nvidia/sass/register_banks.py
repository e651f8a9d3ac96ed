"""Cycles in which arithmetic reads its registers: each of two banks serves a warp one of them a cycle.

A register is in the bank of its parity. Where the compiler writes `.reuse`, the value is kept at that place
among the operands, until an instruction reads another one there, and is not read again.

Source: Jia et al., arXiv:1804.06826, Sec. 2.2 (two banks, reuse caches); Huerta et al., arXiv:2503.20481,
Sec. 5.3 (1,024 bits of a bank in a cycle, on Ampere and Turing). How reads are ordered there is not known in
full; here an instruction waits for all of its own.
"""

from collections.abc import Iterable
from typing import Any

from dse.source.nvidia.sass.operands import RZ

_PIPES = ("fp32", "fp32x2", "fp16", "int32", "imul32")  # others take several cycles in any case


def mark_reading(steps: Iterable[Any]) -> None:
    """Set `reading` of each Step, in order: the cycles after the first in which it reads registers."""
    kept: dict[int, int] = {}  # registers in the reuse cache, by place
    for step in steps:
        printed = step.instruction.operands[len(step.targets) :]
        sources = [
            (place, source.slot, words, ".reuse" in text)
            for place, (source, words, text) in enumerate(
                zip(step.sources, step.source_words, printed, strict=False)  # some have an implied source
            )
            if source.kind == "register" and source.slot < RZ
        ]
        if step.pipe in _PIPES:
            read = {
                register
                for place, slot, words, _ in sources
                if kept.get(place) != slot
                for register in range(slot, slot + words)
            }
            odd = sum(register % 2 for register in read)
            step.reading = max(odd, len(read) - odd, 1) - 1
        for place, slot, _, stays in sources:
            kept[place] = slot if stays else RZ
        if step.branches:
            kept.clear()
