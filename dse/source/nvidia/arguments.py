"""Launches for the interpreter, with a configuration's arguments as its compiler passes them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from dse.errors import DseError
from dse.kernels.description import Contents, Members
from dse.source.contract import Passed
from dse.source.launches import Argument, Array, Assumed, Configuration, Descriptor, Unstated, held
from dse.source.machine.launch import (
    OF_ADDRESSES,
    OF_VARIABLES,
    LaunchArguments,
    Pointer,
    TensorMap,
    UnknownArgument,
    address_of,
)
from dse.source.nvidia.compile.contract import Compiled

MAP_BYTES = 128  # of a tensor map
MOST_CONTENTS_BYTES = 1 << 29  # of an array whose contents are stated


def as_launched(made: Any, configuration: Configuration) -> Configuration:
    """Return a configuration with its compiler's launch, if there is one: `made.launched`.

    **Raises:** DseError if the code takes more arguments than there are.
    """
    launched = made.launched
    if launched is None:
        return configuration
    x, y, z = configuration.grid
    arguments = configuration.arguments
    if launched.passed is not None:
        wanted = 1 + max(
            (passed_value.argument for passed_value in launched.passed if passed_value.argument is not None),
            default=-1,
        )
        if wanted > len(arguments):
            raise DseError(f"arguments: found {len(arguments)}, expected {wanted}")
        scratch = launched.scratch_bytes * prod(configuration.grid)
        written = Contents(np.zeros(scratch, np.uint8)) if 0 < scratch <= MOST_CONTENTS_BYTES else None
        arguments = tuple(_taken(passed, arguments, written) for passed in launched.passed)
    return replace(
        configuration,
        grid=(launched.cluster * x, y, z),
        block=(launched.threads, 1, 1),
        shared_bytes=launched.shared_bytes,
        arguments=arguments,
    )


def _taken(passed: Passed, arguments: Sequence[Argument], scratch: Contents | None) -> Argument:
    """Return the argument of a parameter; the compiler's own are its scratch memory."""
    argument = scratch if passed.argument is None else arguments[passed.argument]
    if not isinstance(argument, Descriptor) or passed.part == "pointer":
        return None if isinstance(argument, Descriptor) else argument
    parts: Mapping[str, Argument] = {
        "map": replace(argument, block=passed.box),
        "shape": argument.shape[passed.axis],
        "stride": argument.strides[passed.axis],
        "flag": 0,
    }
    return parts[passed.part]


def launch_of(made: Compiled, configuration: Configuration) -> LaunchArguments:
    """Return a launch for the interpreter.

    **Raises:** DseError if the arguments do not fit the kernel.
    """
    binary, arguments = made.binary, configuration.arguments
    places = places_of([(parameter.offset, parameter.size) for parameter in binary.parameters], arguments)
    sizes = [size for _, size in places]
    if made.listing is not None:  # it does not state parameters: numbers are assumed to have 32 bits
        sizes = [
            8 if argument is None or isinstance(argument, Array | Assumed) else 4 for argument in arguments
        ]
    banks, assumed = dict(binary.banks), dict(configuration.assumed)
    for seed, variable in enumerate(made.binary.constants, len(arguments)):
        if assumed.get(variable.name):
            words, at = np.asarray(Assumed(assumed[variable.name]).pointer(seed).contents), variable.offset
            filled = bytearray(banks[variable.bank])
            filled[at : at + variable.size] = np.resize(words.view(np.uint8), variable.size).tobytes()
            banks[variable.bank] = bytes(filled)
    variables, addresses = dict[str, Pointer](), bytearray(banks.get(OF_ADDRESSES, b""))
    for offset, (name, contents) in binary.variables.items():
        place = len(arguments) + len(variables)
        addresses[offset : offset + 8] = address_of(place).to_bytes(8, "little")
        variables[name] = held(contents, assumed.get(name), place)
    banks |= {OF_ADDRESSES: bytes(addresses)} if variables else {}
    cluster = binary.cluster if made.launched is None else (made.launched.cluster, 1, 1)
    if any(blocks % of_cluster for blocks, of_cluster in zip(configuration.grid, cluster, strict=True)):
        problem = f"found {configuration.grid}, expected multiples of those of a cluster, {cluster}"
        raise DseError(f"{binary.kernel}: grid: {problem}")
    return LaunchArguments(
        grid=configuration.grid,
        block=configuration.block,
        arguments=arguments_of(binary.kernel, sizes, arguments),
        offsets=None if made.listing is not None else [offset for offset, _ in places],
        banks=banks,
        most_steps=configuration.most_steps,
        unset={
            constant.name: range(constant.offset, constant.offset + constant.size)
            for constant in made.binary.constants
            if constant.bank == OF_VARIABLES
            and constant.name not in assumed
            and not any(banks[constant.bank][constant.offset : constant.offset + constant.size])
        },
        variables=variables,
        cluster=cluster,
    )


def places_of(places: Sequence[tuple[int, int]], arguments: Sequence[Argument]) -> list[tuple[int, int]]:
    """Return offset and bytes of each parameter, and after them of the members of structures."""
    return [
        *places,
        *(
            (offset + inside, size)
            for (offset, _), argument in zip(places, arguments, strict=False)
            if isinstance(argument, Members)
            for inside, size in argument.places
        ),
    ]


def arguments_of(kernel: str, sizes: Sequence[int], values: Sequence[Argument]) -> list[Any]:
    """Return the arguments for the interpreter; numbers have the `sizes` of the parameters."""
    if len(values) != len(sizes):
        missing = len(sizes) - len(values)
        hint = f"; add {missing} in their order (8 B: an array or a number)" if missing > 0 else ""
        expected = f"{len(sizes)} of {', '.join(map(str, sizes))} B{hint}"
        raise DseError(f"{kernel}: arguments: found {len(values)}, expected {expected}")
    arguments: list[Any] = []
    for number, (argument, size) in enumerate(zip(values, sizes, strict=True)):
        try:
            match argument:
                case Unstated.NUMBER:
                    arguments.append(UnknownArgument(size))
                case None | Array() if size == 8:
                    arguments.append(None if argument is None else _contents(argument, number))
                case Assumed() if size == 8:
                    arguments.append(argument.pointer(number))
                case Contents() if size == 8:
                    arguments.append(argument.array)
                case Members() if size == argument.size:
                    arguments.append(bytes(size))
                case Descriptor() if size == MAP_BYTES:
                    arguments.append(_tensor_map(argument))
                case float() if size in (4, 8):
                    arguments.append(np.asarray(argument, f"f{size}").tobytes())
                case int() if size <= 8:
                    arguments.append(argument.to_bytes(size, "little", signed=argument < 0))
                case tuple() if size % len(argument) == 0:
                    parts = [size // len(argument)] * len(argument)
                    arguments.append(b"".join(arguments_of(kernel, parts, argument)))
                case _:
                    raise OverflowError
        except OverflowError:
            arrays = None | Array | Contents | Descriptor
            given_text = "an array" if isinstance(argument, arrays) else argument
            if isinstance(argument, Members):
                given_text = f"a structure of {argument.size} B by its members in the source"
            raise DseError(
                f"{kernel}: argument {number + 1}: found {given_text}, expected what takes {size} B"
            ) from None
    return arguments


def _tensor_map(descriptor: Descriptor) -> Any:
    """Return a tensor map for the interpreter."""
    bits = re.search(r"\d+", descriptor.type)
    return TensorMap(int(bits[0]) // 8 if bits else 1, descriptor.shape, descriptor.strides, descriptor.block)


@lru_cache(maxsize=4)  # configurations mostly share them
def _contents(array: Array, seed: int) -> np.ndarray:
    if array.size * np.dtype(array.type).itemsize > MOST_CONTENTS_BYTES:
        most = MOST_CONTENTS_BYTES // np.dtype(array.type).itemsize
        raise DseError(f"arguments: found contents of {array.size:,} elements, expected at most {most:,}")
    return array.contents(seed, array.type)
