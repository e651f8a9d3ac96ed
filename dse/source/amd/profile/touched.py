"""Count what each wave's access to memory touches, and the cycles that the vector cache takes for it."""

import numpy as np

from dse.core.numba_cache import compiled
from dse.hardware.coalescing import SECTOR

_WORD = 4  # bytes
_BANKS = 32  # words that RDNA's vector cache reads in a cycle
_TAGS = 4  # lines that it looks up in a cycle
_QUAD = 4  # lanes whose addresses GCN's and CDNA's processes together
_QUADS = 4  # that share a cycle where words are adjacent or equal
BUSY = _BANKS + _TAGS  # counts that `cycles_of_banks` has room for
_APART = 1.75  # cycles of a quad whose words lie far apart, in different banks


@compiled
def count_touches(
    address: np.ndarray,
    mask: np.ndarray,
    size: int,
    per_line: int,
    kept: np.ndarray,
    lines: np.ndarray,
    sectors: np.ndarray,
) -> None:
    """Fill in the lines and the sectors of each wave.

    **Shapes:** address and mask [waves, lanes], lines and sectors [waves]; `kept` has room for as
    many sectors.
    """
    for wave in range(address.shape[0]):
        lines[wave] = 0
        sectors[wave] = _distinct(address[wave], mask[wave], 0, address.shape[1], size, SECTOR, kept)
        for at in range(sectors[wave]):
            lines[wave] += at == 0 or kept[at] // per_line != kept[at - 1] // per_line


@compiled
def cycles_of_banks(
    address: np.ndarray,
    mask: np.ndarray,
    size: int,
    line: int,
    kept: np.ndarray,
    busy: np.ndarray,
    cycles: np.ndarray,
) -> None:
    """Fill in the cycles of RDNA: of the busiest bank, of lines looked up in one place, or of wide words.

    A cycle serves any 32 words in different banks of four lines, or 64 bytes of lanes with more than a word.

    **Shapes:** address and mask [waves, lanes], cycles [waves]; `kept` has room for a wave's words, `busy`
    of `BUSY` counts.
    **Source:** RRZE-HPC/gpu-benches, gpu-strides on an RX 6900 XT: strides of 1 to 64 words.
    """
    for wave in range(address.shape[0]):
        cycles[wave] = 0.0
        for first in range(0, address.shape[1], _BANKS):
            last = min(first + _BANKS, address.shape[1])
            words = _distinct(address[wave], mask[wave], first, last, size, _WORD, kept)
            busy[:] = 0
            for at in range(words):
                busy[kept[at] % _BANKS] += 1
                of_line = kept[at] * _WORD // line
                if at == 0 or of_line != kept[at - 1] * _WORD // line:
                    busy[_BANKS + of_line % _TAGS] += 1
            most = 0.0
            if size > _WORD:
                for lane in range(first, last):
                    most += mask[wave, lane] * size / 64
            for count in busy:
                most = max(most, float(count))
            cycles[wave] += most


@compiled
def cycles_of_quads(address: np.ndarray, mask: np.ndarray, size: int, cycles: np.ndarray) -> None:
    """Fill in the cycles of GCN and CDNA, which process the addresses of four lanes at a time.

    Quads of adjacent or equal words share a cycle with their neighbours, 16 lanes in all. Others take one for
    each word in the same bank, of four, or of 64 bytes where lanes have more than a word. Bytes were not
    measured: a quad of them takes as many quarters of a cycle as it has runs of neighbours.

    **Shapes:** address and mask [waves, lanes], cycles [waves].
    **Source:** RRZE-HPC/gpu-benches, gpu-strides on an MI210: strides of 1 to 64 words.
    """
    for wave in range(address.shape[0]):
        cycles[wave] = 0.0
        for first in range(0, address.shape[1], _QUAD):
            last = min(first + _QUAD, address.shape[1])
            active, runs, continues = 0, 0, first % (_QUAD * _QUADS) != 0
            for lane in range(first, last):
                if mask[wave, lane]:
                    apart = abs(address[wave, lane] - address[wave, lane - 1])
                    near = lane > 0 and mask[wave, lane - 1] and apart <= size
                    continues = continues and (near or active > 0)
                    runs += lane == first or not near
                    active += 1
            if size < _WORD:
                cycles[wave] += runs / _QUADS
            elif size == _WORD and runs == 1:
                cycles[wave] += not continues
            elif active > 0:
                cycles[wave] += _cycles_of_quad(address[wave], mask[wave], first, last, size)


@compiled
def _cycles_of_quad(address: np.ndarray, mask: np.ndarray, first: int, last: int, size: int) -> float:
    """Return the cycles of active lanes that access words, or more, which are not all adjacent or equal."""
    banks, low, high, most = 64 // size if size > _WORD else _QUAD, 0, -1, 1.0
    for lane in range(first, last):
        if mask[lane]:
            at, in_bank = address[lane], 0.0
            low, high = (at, at) if high < low else (min(low, at), max(high, at))
            for other in range(first, lane + 1):
                apart = at // size - address[other] // size
                in_bank += apart % banks == 0 and _is_new(address, mask, first, other, size)
            most = max(most, in_bank)
    return max(most, _APART) if size == _WORD and high + size - low >= 64 else most


@compiled
def _is_new(address: np.ndarray, mask: np.ndarray, first: int, lane: int, size: int) -> bool:
    """Return whether a lane is active and no lane from `first` on accesses the same element."""
    new = mask[lane]
    for other in range(first, lane):
        new = new and not (mask[other] and address[other] // size == address[lane] // size)
    return new


@compiled
def _distinct(
    address: np.ndarray, mask: np.ndarray, first: int, last: int, size: int, of: int, kept: np.ndarray
) -> int:
    """Keep the numbers of the units `of` bytes that lanes access, without repetition and in order."""
    count = 0
    for lane in range(first, last):
        if not mask[lane]:
            continue
        for word in range(max(size // _WORD, 1)):
            number = (address[lane] + _WORD * word) // of
            at = count  # mostly they come in order
            while at > 0 and kept[at - 1] > number:
                at -= 1
            if at > 0 and kept[at - 1] == number:
                continue
            for later in range(count, at, -1):
                kept[later] = kept[later - 1]
            kept[at] = number
            count += 1
    return count
