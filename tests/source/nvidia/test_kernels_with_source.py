"""Prefix sums in CUDA, level by level in NumPy: passes through the banks, between barriers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dse import kernels
from dse.source.machine.blocks import representative
from dse.source.machine.launch import LaunchArguments
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.nvrtc import compile_source, read_source
from dse.source.nvidia.profile.characterise import characterise
from dse.source.nvidia.sass.disassemble import disassemble
from dse.source.profile.characterise import Characterisation

FOLDER = kernels.load("prefix_sum").path.parent.parent


def counted(
    path: Path, defines: Mapping[str, int], blocks: int, arguments: Sequence[Any]
) -> Characterisation:
    """What all blocks of a launch do, on average."""
    made = compile_source(read_source(path), 80, defines)
    assert isinstance(made, Compiled), made
    offsets = [parameter.offset for parameter in made.binary.parameters]
    launch = LaunchArguments(
        (blocks, 1, 1), (defines["BLOCK"], 1, 1), arguments, offsets=offsets, banks=made.binary.banks
    )
    return characterise(disassemble([made.binary])[0], launch, sample=representative(launch.grid, blocks))


def distinct(places: np.ndarray, active: np.ndarray) -> int:
    """Different places that the active lanes of each warp ask for, over all warps; both [warps, 32]."""
    return sum(len(np.unique(row[mask])) for row, mask in zip(places, active, strict=True))


def sectors(elements: np.ndarray, active: np.ndarray) -> int:
    """Of 32 bytes, by elements of 4."""
    return distinct(elements // 8, active)


Access = tuple[np.ndarray, np.ndarray]  # of the block's threads: words [warps, 32, 1 or 2], who takes part


def passes(words: np.ndarray, active: np.ndarray) -> int:
    """Of all warps through 32 banks, a half warp at a time where each thread moves two words: different words
    of the bank that has most.
    """
    each = words.shape[-1]
    found = 0
    for part, mask in zip(words.reshape(-1, 32 // each, each), active.reshape(-1, 32 // each), strict=True):
        asked = np.unique(part[mask])
        found += int(np.bincount(asked % 32, minlength=32).max(initial=0))
    return found


def threads_of(block: int) -> np.ndarray:
    return np.arange(block).reshape(-1, 32, 1)


def by_shuffles(block: int) -> list[tuple[list[Access], list[Access]]]:
    """(loads, stores) of shared memory between barriers."""
    thread = threads_of(block)
    totals = (thread, thread < block // 32)
    last = (thread // 32, thread % 32 == 31)
    return [([], [last]), ([totals], [totals]), ([(thread // 32 - 1, thread >= 32)], [])]


def by_tree(block: int) -> list[tuple[list[Access], list[Access]]]:
    thread = threads_of(block)
    everyone = (thread, thread >= 0)
    distances = [2**level for level in range(int(np.log2(block)))]
    rights = [2 * distance * (thread + 1) - 1 for distance in distances]
    nodes = [(right, right < block) for right in rights]
    # both children; at the lowest level they are neighbours, which one instruction moves
    both = [
        [(right - distance, right < block), (right, right < block)]
        if distance > 1
        else [(np.concatenate([right - 1, right], axis=-1), right < block)]
        for distance, right in zip(distances, rights, strict=True)
    ]
    return [
        ([], [everyone]),
        *(([*pair], [node]) for pair, node in zip(both, nodes, strict=True)),
        ([], [(0 * thread + block - 1, thread == 0)]),
        *((pair, pair) for pair in reversed(both)),
        ([everyone], []),
    ]


@pytest.mark.quick("64")
@pytest.mark.parametrize(("shuffle", "block"), [(0, 256), (1, 64)])
def test_prefix_sums_level_by_level(shuffle: int, block: int):
    items, blocks = 2, 5
    count = blocks * block * items - block - 45  # the last block is not full
    defines = {"BLOCK": block, "ITEMS": items, "SHUFFLE": shuffle}
    arguments = [None, None, None, np.int64(0), count]  # no offsets
    found = counted(FOLDER / "prefix_sum" / "prefix_sum.cu", defines, blocks, arguments)
    assert not found.unknown

    expected = by_shuffles(block) if shuffle else by_tree(block)
    assert [phase.passes for phase in found.phases] == [1] * len(expected)
    for place, (phase, reenacted) in enumerate(zip(found.phases, expected, strict=True)):
        for kind, accesses in zip(("shared load", "shared store"), reenacted, strict=True):
            asked = {
                "requests": sum(np.count_nonzero(active.any(axis=1)) for _, active in accesses),
                "passes": sum(passes(words, active) for words, active in accesses),
                # four for each word of each lane that is active
                "bytes": sum(4 * words.shape[-1] * np.count_nonzero(active) for words, active in accesses),
            }
            access = phase.accesses.get(kind)
            counts = {field: getattr(access, field) if access else 0 for field in asked}
            assert counts == pytest.approx(asked), (place, kind)
    if shuffle:
        warps = block // 32
        between = [phase.insts["shared"] for phase in found.phases]
        # five shuffles of each warp and its store, those of the first with a load and a store, then a load
        assert between == pytest.approx([6 * warps, 7, warps])

    element = items * np.arange(blocks * block).reshape(-1, 32)
    items_of = [(element + item, element + item < count) for item in range(items)]
    total = {
        "requests": sum(np.count_nonzero(active.any(axis=1)) for _, active in items_of),
        "sectors": sum(sectors(*item) for item in items_of),
        "bytes": 4 * count,
    }
    assert {field: blocks * found.total("global load", field) for field in total} == pytest.approx(total)
    # each block stores its total besides
    plus = {"requests": blocks, "sectors": blocks, "bytes": 4 * blocks}
    stored = {field: total[field] + plus[field] for field in total}
    assert {field: blocks * found.total("global store", field) for field in total} == pytest.approx(stored)
