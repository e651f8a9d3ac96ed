"""The tensor maps (CUtensorMap) that copies of boxes name: arguments, or 128 bytes that the kernel wrote.

Source: what ptxas of CUDA 13.0 makes of `tensormap.replace` for sm_90a, sm_100a and sm_120a: fields of words.
"""

from collections.abc import Iterator

import numpy as np

from dse.source.machine.launch import TensorMap, address_of
from dse.source.machine.memory import regions_of
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.sass.program import Step

# (blocks that use the map: [blocks] bool, addresses of their tensors: [blocks], the map)
OfBlocks = tuple[np.ndarray, np.ndarray, TensorMap]

_ADDRESS_WORDS, _WORDS = 2, 32
_TYPE_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2)  # u8 u16 u32 s32 u64 s64 f16 f32 f32.ftz f64 bf16
_ELEMENT_STRIDES = 0x7FFF  # less 1 each
_STRIDE_UNIT = 16  # bytes


def maps_of(machine: Machine, step: Step, address: np.ndarray, blocks: np.ndarray) -> Iterator[OfBlocks]:
    """Yield the maps at these addresses, [blocks], of some blocks.

    Nothing if the kernel may have written them and what it stores is not followed (`missed_stores`).

    **Raises:** DseError if there is none of the copy's dimensions.
    """
    values, places = np.unique(address, return_inverse=True)
    owner = np.array([machine.argument_at(value) for value in values.tolist()])[places]
    for argument in np.unique(owner[blocks]).tolist():
        members, known = blocks & (owner == argument), None
        if argument < 0:
            known = list(_written(machine, step, address, members))
        elif isinstance(tensor := machine.launch.arguments[argument], TensorMap):
            known = [(members, np.full(len(blocks), address_of(argument)), tensor)]
        dimensions = len(step.coordinates)
        if known is None or any(len(tensor.shape) != dimensions for _, _, tensor in known):
            problem = "found a tensor map not stated, or of other dimensions"
            stated = "tensordesc<...>; CUtensorMap: ROWS,COLUMNS:half:BOX_ROWS,BOX_COLUMNS"
            raise machine.program.error(
                step, f"{problem}, expected an argument ({stated}) of {dimensions} dimensions"
            )
        yield from known


def _written(machine: Machine, step: Step, address: np.ndarray, blocks: np.ndarray) -> Iterator[OfBlocks]:
    """Yield the distinct maps, but for their tensors' addresses, that the kernel wrote to memory."""
    if not machine.bound.global_stores:
        machine.missed_stores = True
        return
    words = np.zeros((_WORDS, len(blocks)), np.int64)
    words[:, blocks], unknown, outside = machine.memory.load(address[blocks], 4 * _WORDS)
    if unknown or outside:
        expected = "expected one that is an argument, or made by tl.make_tensor_descriptor"
        raise machine.program.error(step, f"found a tensor map in memory of unknown contents, {expected}")
    for region in regions_of(address[blocks]):
        taint = machine.memory.taints.get(region, 0)
        machine.note_unknown(step, "address", taint, machine.sets.of(machine.live_mask))
    start = words[0] | words[1] << 32
    alike, places = np.unique(words[_ADDRESS_WORDS:], axis=1, return_inverse=True)
    for number in np.unique(places.ravel()[blocks]).tolist():
        tensor = _read([0] * _ADDRESS_WORDS + alike[:, number].tolist())
        if tensor is None:
            problem = "found a tensor map of packed types or element strides"
            raise machine.program.error(step, f"{problem}, expected whole bytes, one after another")
        yield blocks & (places.ravel() == number), start, tensor


def _read(words: list[int]) -> TensorMap | None:
    """Read a map's words, innermost dimensions first; None if its elements are no whole bytes in turn."""
    rank, kind = (words[2] >> 4 & 7) + 1, words[2] >> 7 & 15
    if kind >= len(_TYPE_BYTES) or words[13] & _ELEMENT_STRIDES:
        return None
    element = _TYPE_BYTES[kind]
    boxes = [words[13] >> 24, *(words[14] >> 8 * axis & 0xFF for axis in range(4))]
    strides = [(words[3 + axis] | (words[7] >> 4 * axis & 15) << 32) * _STRIDE_UNIT for axis in range(4)]
    return TensorMap(
        element,
        tuple(words[8 + axis] + 1 for axis in reversed(range(rank))),
        (*(stride // element for stride in reversed(strides[: rank - 1])), 1),
        tuple(boxes[axis] + 1 for axis in reversed(range(rank))),
    )
