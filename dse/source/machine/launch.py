"""The grid, block and arguments of a launch, and the constant memory with them.

Source of the layouts: what nvcc 13.0 emits for compute capabilities 7.5 to 12.0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dse.errors import DseError

REGION_BITS = 36  # each pointer argument points to a region of its own, into its middle
MIDDLE = 1 << (REGION_BITS - 1)
VARIABLE = "variable "  # before the name of what is no argument
OF_ATOMICS = "what atomic operations return"  # on global memory, which other blocks change too
OF_BLOCKS = "what other blocks store while it waits"
OF_CLUSTER = "what other blocks write into shared memory"
OF_LAUNCH = "clusters, which the code does not state (__cluster_dims__)"
OUTSIDE = "memory outside argument"  # before its number: of stated contents
OF_VARIABLES, OF_ADDRESSES = 3, 4  # constant banks: `__constant__` variables, addresses of `__device__` ones

Dimensions = tuple[int, int, int]


@dataclass(frozen=True)
class UnknownArgument:
    """An argument of unstated value: counts that depend on it are reported."""

    bytes: int = 4


@dataclass(frozen=True)
class Pointer:
    """A pointer to global memory; `contents` are those of the memory, if known, which may repeat for ever."""

    contents: np.ndarray | None = None
    repeats: bool = False


@dataclass(frozen=True)
class TensorMap:
    """A tensor in global memory and the shape of copied boxes: a descriptor of 128 bytes, by value.

    Sizes are in elements, outermost dimension first. Its global memory is a separate region, as of a pointer.
    """

    element_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]

    bytes = 128


# Python's int is a 32-bit integer, its float a single; NumPy scalars have their own size. An array is a
# pointer to it, None a pointer to unstated contents, bytes a structure passed by value.
Argument = Any


@dataclass(frozen=True)
class LaunchArguments:
    """One launch of a kernel.

    `offsets` are those of the arguments in constant bank 0 (bytes; default: by their sizes); `banks` are the
    contents of other constant banks: 2 and 4 come from the compiler, 3 has `__constant__` variables; `unset`
    are the bytes of those that the source does not set. `variables` in memory are regions after these.
    """

    grid: Dimensions
    block: Dimensions
    arguments: Sequence[Argument] = ()
    offsets: Sequence[int] | None = None
    banks: Mapping[int, bytes] = field(default_factory=dict)
    unset: Mapping[str, range] = field(default_factory=dict)
    variables: Mapping[str, Pointer] = field(default_factory=dict)
    most_steps: int = 1 << 31  # basic blocks executed, if fewer than an engine's own limit
    cluster: Dimensions = (1, 1, 1)  # blocks that share their shared memory

    @property
    def threads(self) -> int:
        """The number of threads of a block."""
        return int(np.prod(self.block))

    @property
    def blocks(self) -> int:
        """The number of blocks of the grid."""
        return int(np.prod(self.grid))


@dataclass(frozen=True)
class _Layout:
    """Offsets in constant bank 0."""

    block: int
    grid: int
    stack: int
    parameters: int
    parameters_address: int = -1  # of the parameters' address, for descriptors among them
    # Of the address of the memory in which all blocks of the grid meet: its low and its high word.
    meeting: tuple[int, int] = (0x90, 0x8C)


_LAYOUTS = (  # from this compute capability on
    (
        100,
        _Layout(
            block=0x360,
            grid=0x370,
            stack=0x37C,
            parameters=0x380,
            parameters_address=0x348,
            meeting=(0x1B8, 0x1B4),
        ),
    ),
    (
        90,
        _Layout(
            block=0x0, grid=0xC, stack=0x28, parameters=0x210, parameters_address=0x198, meeting=(0x48, 0x44)
        ),
    ),
    (70, _Layout(block=0x0, grid=0xC, stack=0x28, parameters=0x160)),
)

STACK_TOP = 0xFFFDC0


@dataclass
class ConstantBank:
    """Words of constant bank 0 by offset, with the argument of each byte."""

    words: dict[int, int]
    owners: dict[int, int]
    parameters: int  # offset of the first


def pointers(launch: LaunchArguments) -> dict[int, np.ndarray | None]:
    """Return the contents of pointer arguments by index; None if not stated."""
    contents: dict[int, np.ndarray | None] = {}
    for index, argument in enumerate(launch.arguments):
        if argument is None or isinstance(argument, np.ndarray):
            contents[index] = argument
        elif isinstance(argument, Pointer):
            contents[index] = argument.contents
    return contents


def address_of(index: int) -> int:
    """Return the address to which argument `index` points."""
    return ((index + 1) << REGION_BITS) + MIDDLE


PARAMETERS = address_of(-1)  # address of the parameters themselves
MEETING = address_of(1 << 16)  # of the memory in which all blocks of the grid meet; arguments are before it
ELSEWHERE = 1 << 17  # regions from here on are those of pointers in memory


def constant_bank(kernel: str, arch: int, launch: LaunchArguments) -> ConstantBank:
    """Lay out constant bank 0 for compute capability `arch` / 10.

    **Raises:** DseError if the architecture is too old, or an argument of a type that cannot be passed.
    """
    layout = next((layout for lowest, layout in _LAYOUTS if arch >= lowest), None)
    if layout is None:
        raise DseError(f"{kernel}: architecture: found sm_{arch}, expected sm_70 or newer")
    words = {layout.stack: STACK_TOP}
    words |= {
        offset: MEETING >> shift & 0xFFFFFFFF for offset, shift in zip(layout.meeting, (0, 32), strict=True)
    }
    if layout.parameters_address >= 0:
        words[layout.parameters_address] = PARAMETERS & 0xFFFFFFFF
        words[layout.parameters_address + 4] = PARAMETERS >> 32
    for axis in range(3):
        words[layout.block + 4 * axis] = launch.block[axis]
        words[layout.grid + 4 * axis] = launch.grid[axis]
    owners: dict[int, int] = {}
    at = layout.parameters
    for index, argument in enumerate(launch.arguments):
        raw = argument_bytes(kernel, index, argument)
        size = len(raw)
        alignment = size if size in (1, 2, 4, 8) else 8 if size % 8 == 0 else 4
        alignment = 64 if isinstance(argument, TensorMap) else alignment
        at = launch.offsets[index] if launch.offsets is not None else -(-at // alignment) * alignment
        for offset, byte in enumerate(raw, start=at):
            word, shift = offset & ~3, 8 * (offset & 3)
            words[word] = words.get(word, 0) | byte << shift
            owners[offset] = index
        at += size
    return ConstantBank(words, owners, layout.parameters)


def argument_bytes(kernel: str, index: int, argument: Argument, size: int | None = None) -> bytes:
    """Return the bytes of an argument; `size` is that of its parameter, if known.

    **Raises:** DseError for a type that cannot be passed, or another size.
    """
    raw = _raw(kernel, index, argument, size)
    if size not in (None, len(raw)):
        raise DseError(f"{kernel}: argument {index}: found {len(raw)} bytes, expected {size} as the code has")
    return raw


def _raw(kernel: str, index: int, argument: Argument, size: int | None) -> bytes:
    match argument:
        case None | Pointer() | np.ndarray():
            return address_of(index).to_bytes(8, "little")
        case UnknownArgument():
            return bytes(size or argument.bytes)
        case TensorMap():
            return bytes(TensorMap.bytes)
        case bytes():
            return argument
        case np.generic():
            return argument.tobytes()
        case int() if size is not None:
            return (argument & (1 << 8 * size) - 1).to_bytes(size, "little")
        case bool():
            return bytes([argument])
        case int() if -(2**31) <= argument < 2**32:
            return (argument & 0xFFFFFFFF).to_bytes(4, "little")
        case float():
            return (np.float64 if size == 8 else np.float32)(argument).tobytes()
    raise DseError(
        f"{kernel}: argument {index}: found {argument!r}, expected a 32-bit integer, a float, a NumPy"
        " scalar or array, None for a pointer, a TensorMap, or bytes"
    )
