"""Runs our Triton kernels by Triton's interpreter on what they are measured on, and checks them as then.

A script, since Triton has to know of its interpreter before it is imported. It prints a line of JSON for each
kernel and case: its name, and what is wrong with its output.
"""

import importlib.util
import json
import os
from dataclasses import replace
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from dse import kernels
from dse.hardware import gpus
from dse.measure.arguments import contents
from dse.measure.checking import CheckedLaunch, places, wrong
from dse.measure.reference import REFERENCES
from dse.measure.space import SpacePlan, plan
from dse.source.launches import Array, Descriptor

TILES = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}
EXPERTS = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64}
CASES: list[tuple[str, dict[str, int], dict[str, int]]] = [  # nothing is a multiple of its tiles
    ("triton_softmax", {"rows": 5, "columns": 70}, {"ROWS": 2}),
    ("triton_layer_norm", {"rows": 4, "columns": 300}, {"BLOCK": 256}),
    ("triton_matmul", {"M": 72, "N": 80, "K": 104}, TILES),
    ("triton_matmul_tma", {"M": 72, "N": 80, "K": 104}, TILES),
    ("triton_attention", {"heads": 2, "length": 100}, {"BLOCK_M": 64, "BLOCK_N": 32}),
    ("triton_moe", {"token_count": 37, "expert_count": 5, "N": 72, "K": 96}, EXPERTS | {"GROUP_M": 16}),
    ("triton_moe", {"token_count": 1, "expert_count": 8, "N": 72, "K": 96}, EXPERTS | {"GROUP_M": 1}),
]
GPU = gpus.load("h100-sxm").gpu
TYPES = {"float16": "*fp16", "float32": "*fp32", "int32": "*i32"}


class Tensor:
    """What the interpreter asks of a tensor."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def data_ptr(self) -> int:
        return self.array.ctypes.data


def prepare() -> None:
    """Let the interpreter take arrays of NumPy where it would copy those of PyTorch."""
    os.environ["TRITON_INTERPRET"] = "1"
    interpreter: Any = import_module("triton.runtime.interpreter")
    interpreter.GridExecutor._init_args_hst = lambda self, arguments, named: (list(arguments), named)
    interpreter.GridExecutor._restore_args_dev = lambda *arguments: None
    usual, language = interpreter._implicit_cvt, interpreter.tl

    def convert(argument: Any) -> Any:
        if not isinstance(argument, Tensor):
            return usual(argument)
        kind = language.str_to_ty(TYPES[argument.array.dtype.name], None)
        address = np.array([argument.data_ptr()], np.uint64)
        return language.tensor(interpreter.TensorHandle(address, kind), kind)

    interpreter._implicit_cvt = convert


def described(given: Descriptor, array: np.ndarray) -> Any:
    """Make a tensor descriptor of an array."""
    kind: Any = import_module("triton.tools.tensor_descriptor").TensorDescriptor
    made = object.__new__(kind)  # else it would ask PyTorch
    made.base, made.shape, made.strides = Tensor(array), list(given.shape), list(given.strides)
    made.block_shape, made.padding, made.round_f32_to_tf32 = list(given.block), "zero", False
    return made


def run(planned: SpacePlan) -> str:
    """Run the first configuration; what is wrong with it."""
    build, source, checks = planned.description.build, planned.description.source, REFERENCES[planned.name]
    assert build is not None
    assert source is not None
    configuration, before, arguments = planned.configurations[0], dict[int, np.ndarray](), []
    for place, argument in enumerate(configuration.arguments):
        if isinstance(argument, Array):
            before[place] = contents(argument, place, checks)
            arguments.append(Tensor(before[place].copy()))
        elif isinstance(argument, Descriptor):
            before[place] = contents(Array(prod(argument.shape), "float16", "", ()), place, checks)
            arguments.append(described(argument, before[place].copy()))
        else:
            arguments.append(argument)
    function = getattr(loaded(source), build.kernel)
    constants = {name: value for name, value in configuration.defines if name in function.arg_names}
    function[configuration.grid](*arguments, **constants)
    names = {**planned.sizes, **planned.parameters[0]}
    at = places(checks.size(names))
    output = arguments[checks.output]
    actual = getattr(output, "base", output).array[at]
    expected = checks.expected(CheckedLaunch(names, before, {}, at))
    index = wrong(actual, expected, checks.tolerance)
    return "" if index is None else f"element {at[index]}: found {actual[index]}, expected {expected[index]}"


def loaded(path: Path) -> Any:
    """Import a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def planned(name: str, sizes: dict[str, int], parameters: dict[str, int]) -> SpacePlan:
    """Plan one configuration. Of a file that was compiled, as it seems: there is no compiler here."""
    from dse.measure.built import BuiltSpace, digest_of

    description = kernels.load(name)
    values = {key: (value,) for key, value in parameters.items()}
    description = replace(description, space=description.space.with_values(values))
    every = description.space.configurations(description.sizes(**sizes))
    first = tuple(column[0].item() for column in every.values())
    known = description.sizes(**sizes)
    built = BuiltSpace(name, digest_of(description), "", known, description.space.names, (first,), ())
    return plan(description, known, GPU, None, 0, built)


if __name__ == "__main__":
    prepare()
    for case in CASES:
        print(json.dumps([case[0], run(planned(*case))]))  # noqa: T201
