"""Compile Triton kernels to machine code, one configuration at a time, for any GPU and without one.

A configuration is a specialisation by Triton for a launch: constants, options such as `num_warps`, and
properties of the arguments: the number 1 becomes a constant; divisibility by 16 is used where it holds, and
for addresses unless a type says otherwise. Triton's metadata have the launch's warps, shared memory and
remaining arguments.

Checked with Triton 3.0 to 3.9 (3.5 to 3.9 for AMD), whose caches hold the compiled code, too.
"""

import ast
import inspect
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from dse.core.files import read_text
from dse.core.processes import ProcessKilled, in_fork
from dse.errors import DseError, one_line
from dse.source.cache import key
from dse.source.contract import STOPPED, Failure, Launched, Passed, Settings
from dse.source.nvidia.compile.absent import Absent, Platform, asked_of, no_driver
from dse.source.nvidia.compile.constants import Constants
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.triton_function import NVIDIA, Function, function, triton
from dse.source.nvidia.compile.triton_metadata import Box, LaunchMetadata
from dse.source.nvidia.sass import elf

CUDA_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
HIP_OPTIONS = ("num_warps", "num_stages", "num_ctas", "waves_per_eu", "matrix_instr_nonkdim", "kpack")
OPTIONS = {"num_warps": 4, "num_stages": 0, "num_ctas": 1}  # with Triton's defaults; 0: its backend's, 3 or 2
OPTIONS |= dict.fromkeys((*CUDA_OPTIONS[3:], *HIP_OPTIONS[3:]))
TRUTH = ":bool"  # of an option
NONE = "None"  # the type of a pointer that is not passed
ALIGNED = 16  # bytes; also the divisor of numbers
DIVISIBLE = ["tt.divisibility", ALIGNED]
ARCHITECTURES = (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)
_OF_ASSEMBLER = re.compile(r"(?:; error|fatal)\s*:\s*(.+)")  # of ptxas, whose log ends with the command
_OF_LIBRARIES = re.compile(r": error: (?!Failures have been)(.+)(?:\n\s+([^^\s].+))?")
_OF_LLVM = re.compile("^error: (.+)", re.MULTILINE)  # of inline assembly, after which it goes on without it
# These errors come after the reason, which is on standard error.
_SAID_BEFORE = re.compile("PassManager|error encountered during parsing|AMD assembler rejected")

# Triton's names of types by those of NumPy and PyTorch.
TYPES = {
    "bool": "i1",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
    "bfloat16": "bf16",
    **{f"float{bits}": f"fp{bits}" for bits in (16, 32, 64)},
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}


class Specialised(NamedTuple):
    """The properties of an argument known to Triton at compile time."""

    type: str  # in Triton's notation
    divisible: bool  # by 16


class Tensor(NamedTuple):
    """The type of a tensor descriptor, in Triton's form."""

    type: str  # of an element
    block: tuple[int, ...]


class Target(NamedTuple):
    """A GPU that Triton compiles for, as its backend names it."""

    backend: str  # "cuda" or "hip"
    arch: int | str  # 80 or "gfx942"
    warp_size: int
    options: tuple[str, ...]  # of the backend
    code: str  # name of the compiled code: "cubin" or "amdgcn"


class OfTriton:
    """What holds for Triton's kernels, compiled or not."""

    most_declared = float("inf")  # launches add all shared memory
    platform = NVIDIA  # that heuristics ask about

    def constants(self, defines: Mapping[str, Any], count: int) -> Constants:
        """No constants: they cannot be read from the text."""
        return Constants({}, None)


@dataclass(frozen=True)
class TritonSource(OfTriton):
    """A Triton kernel, with the properties that its configurations share."""

    path: str
    kernel: str
    text: str
    names: tuple[str, ...]  # of the arguments, in order
    types: tuple[str, ...]  # of the arguments in Triton's notation; "" if the value determines it
    fixed: Settings  # constants equal in all configurations
    digest: str  # of the kernel, of all functions that it calls, and of the other fields
    truths: tuple[str, ...] = ()  # constants that are True or False where configurations have 1 or 0

    @property
    def compiler(self) -> str:
        """Triton and its version."""
        return f"Triton {triton().__version__}"

    def architectures(self) -> tuple[int, ...]:
        """List the architectures it can be compiled for."""
        return ARCHITECTURES

    def settings(self, defines: Settings, arguments: Sequence[Any]) -> Settings:
        """Return constants, options, and the specialisation of each argument.

        `arguments` are numbers, or objects with the `type` and `block` of a tensor descriptor; others are
        arrays or unstated numbers.

        **Raises:** DseError if there are too few or too many, or one has an unknown type.
        """
        kernel = function(Path(self.path), self.kernel, self.platform)
        where = f"{self.path}: {self.kernel}"
        if len(arguments) != len(self.names):
            stated = ", ".join(self.names)
            raise DseError(
                f"{where}: arguments: found {len(arguments)}, expected {len(self.names)}: {stated}"
            )
        values = dict(self.fixed) | dict(defines)
        values |= {name: bool(values[name]) for name in self.truths}
        argument_values = zip(kernel.arguments, self.types, arguments, strict=True)
        known = {
            parameter.name: specialised(parameter, kind, argument, where)
            for parameter, kind, argument in argument_values
        }
        rows = zip(self.names, self.types, arguments, strict=True)
        stated = {name: seen(name, kind, argument) for name, kind, argument in rows}
        for name, rule in kernel.heuristics.items():
            if name not in values:
                with asked_of(self.platform):
                    values[name] = by_rule(rule, stated | values, f"{where}: heuristics: {name}")
        if missing := [name for name in kernel.constexprs if name not in values]:
            raise DseError(f"{where}: constants: found no value of {missing[0]}, expected one")
        return (*sorted(values.items()), *known.items())

    def compile(self, arch: int, settings: Settings) -> Any | Failure:
        """Compile one configuration, as `compile_each`."""
        [made] = self.compile_each(arch, [settings])
        return made

    def compile_each(self, arch: int, several: Sequence[Settings]) -> Iterator[Any | Failure]:
        """Compile configurations for compute capability `arch` / 10, in turn in one process of their own.

        **Raises:** DseError if Triton is missing, the file cannot be imported or has no such kernel.
        """
        target = self.target(arch)
        kernel = function(Path(self.path), self.kernel, Platform(target.backend, target.warp_size))
        where = f"{Path(self.path).name}: {self.kernel}"
        answers = in_fork([partial(_answer, kernel.jit, target, dict(settings)) for settings in several])
        for settings in several:
            with _silence():
                _hash_compiler(target)
                packed = next(answers)
            if isinstance(packed, ProcessKilled):
                yield Failure(STOPPED, f"{where}: the compiler {packed}")
                continue
            made = msgspec.msgpack.decode(packed, type=_Made)
            if made.refused:
                yield Failure("compile error", f"{where}: {made.refused}")
                continue
            metadata = LaunchMetadata.model_validate_json(made.metadata)
            passed = _passed(kernel, dict(settings), metadata.tensordesc_meta)
            yield self.made(made.code, replace(launched_as(metadata), passed=passed))

    def target(self, arch: int) -> Target:
        """Return what Triton compiles for."""
        return Target("cuda", arch, 32, CUDA_OPTIONS, "cubin")

    def made(self, code: bytes, launched: Launched) -> Any:
        """Return compiled code with its launch."""
        [binary] = elf.read(code, self.path).values()
        return Compiled(
            binary=binary,
            cubin=code,
            ptx=None,
            log="",
            compiler=self.compiler,
            spill_bytes=None,
            launched=with_scratch(launched, len(binary.parameters)),
        )


def read_source(
    path: Path,
    kernel: str = "",
    types: Sequence[str] = (),
    options: Sequence[str] = (),
    platform: Platform = NVIDIA,
) -> TritonSource:
    """Find a kernel of a Python file. `types` are those of its arguments; `options` are constants, as
    `NAME=VALUE`, and names of those that are True or False, as `NAME:bool`.

    **Raises:** DseError as `dse.source.nvidia.compile.triton_function.function`; if a constant is not the
    kernel's.
    """
    jitted = function(path, kernel, platform)
    names = tuple(parameter.name for parameter in jitted.arguments)
    fixed = {name: value for name, value in jitted.constexprs.items() if value is not inspect.Parameter.empty}
    truths = tuple(option.removesuffix(TRUTH) for option in options if option.endswith(TRUTH))
    for option in options:
        name, equals, text = option.partition("=")
        if not equals:
            continue
        if name not in jitted.constexprs and name not in OPTIONS:
            allowed = ", ".join([*jitted.constexprs, *OPTIONS])
            raise DseError(f"{path}: {jitted.name}: found the constant {name!r}, expected one of {allowed}")
        fixed[name] = constant(text)
    known = tuple(map(canonical, types)) or ("",) * len(names)
    text = read_text(path)
    try:
        code = jitted.jit.cache_key
    except RecursionError:
        raise DseError(f"{path}: {jitted.name}: found code nested too deeply for Triton to read") from None
    except Exception as error:  # of any type: Triton's error for names in the kernel
        raise DseError(f"{path}: {jitted.name}: {one_line(str(error))}") from None
    digest = key(code, text, repr(known), repr(sorted(fixed.items())), *truths)
    constants = tuple(sorted(fixed.items()))
    return TritonSource(str(path), jitted.name, text, names, known, constants, digest, truths)


def canonical(kind: str) -> str:
    """Return a type in Triton's notation: `*float16` is `*fp16`."""
    match = re.fullmatch(r"(\*?k?)(.*?)(:\d+)?", kind.strip(), re.DOTALL)
    assert match is not None  # each part may be empty
    pointer, name, hint = match.groups("")
    return pointer + TYPES.get(name.removeprefix("torch."), name) + hint


def numpy_type(kind: str) -> str:
    """Return NumPy's or PyTorch's name of the elements of an array, of its type as Triton writes it."""
    element = kind.removeprefix("*").removeprefix("k").partition(":")[0]
    return next((name for name, theirs in TYPES.items() if theirs == element), "int32")


def has_fractions(kind: str) -> bool:
    """Return whether a type, in Triton's notation, is an array of floating-point numbers."""
    return re.match(r"\*\w*(fp|bf)\d", kind) is not None


def specialised(parameter: Any, kind: str, argument: Any, where: str) -> Specialised | Tensor | Any:
    """Return the properties of an argument known at compile time; a number if it becomes a constant.

    **Raises:** DseError if the type is unknown.
    """
    name, _, hint = kind.partition(":")
    if hasattr(argument, "block"):
        return Tensor(canonical(argument.type), tuple(argument.block))
    if name == "constexpr":
        return argument
    if name == NONE:
        return None
    if not isinstance(argument, bool | int | float):
        if not name:
            raise DseError(f"{where}: {parameter.name}: found no type, expected one such as *fp16 or i32")
        if not hint.isdecimal() and hint:
            expected = "expected a type and its alignment, as *fp16:16; contents are given by --arg"
            raise DseError(f"{where}: {parameter.name}: found {kind!r}, {expected}")
        return Specialised(name, int(hint or ALIGNED * name.startswith("*") or 1) % ALIGNED == 0)
    name = name or _type_of(argument)
    if isinstance(argument, bool | float) or parameter.do_not_specialize:
        return Specialised(name, False)
    if argument == 1:
        return 1
    any_alignment = getattr(parameter, "do_not_specialize_on_alignment", False)  # since Triton 3.2
    return Specialised(name, argument % ALIGNED == 0 and not any_alignment)


def launched_as(metadata: LaunchMetadata) -> Launched:
    """Return the launch of code from Triton's metadata."""
    scratch_bytes = metadata.global_scratch_size * metadata.num_ctas
    threads = metadata.warp_size * metadata.num_warps
    return Launched(threads, metadata.shared, metadata.num_ctas, scratch_bytes)


def with_scratch(launched: Launched, parameters: int) -> Launched:
    """Pass memory that Triton itself allocates as the last of this many parameters of the code."""
    passed = launched.passed or ()
    return replace(launched, passed=passed + (Passed(),) * (parameters - len(passed)))


def _type_of(number: bool | int | float) -> str:
    if isinstance(number, bool):
        return "u1"
    if isinstance(number, float):
        return "fp32"
    return "i32" if -(2**31) <= number < 2**31 else "i64" if number < 2**63 else "u64"


@cache
def _hash_compiler(target: Target) -> None:
    """Let Triton read in this process what it needs for each compilation and keeps: else each fork does.

    That is a hash of its library of 500 MB, the assembler's version, and modules imported late.
    """
    with suppress(Exception):  # of any type: the compilation says what is wrong
        import_module("triton.compiler.code_generator")
        for module in (triton().runtime.cache, triton().compiler.compiler):  # newer and older versions
            getattr(module, "triton_key", str)()
        triton().compiler.make_backend(_gpu_target(target)).hash()


class _Made(NamedTuple):
    """The result of a compilation."""

    refused: str  # the reason if there is no code
    code: bytes = b""
    metadata: str = ""


def _answer(jit: Any, target: Target, settings: Mapping[str, Any]) -> bytes:
    with _silence() as printed:
        try:
            with asked_of(Platform(target.backend, target.warp_size)):
                made = _compiled(jit, target, settings)
            metadata = LaunchMetadata.model_validate(made.metadata, from_attributes=True)
            code = made.asm[target.code]
            if refused := _OF_LLVM.search(_text(printed)):
                for path in made.metadata_group.values():  # in Triton's cache, which would say nothing
                    Path(path).unlink(missing_ok=True)
                raise ValueError(refused[1])
            answer = _Made("", code.encode() if isinstance(code, str) else code, metadata.model_dump_json())
        except Exception as error:  # of any type: the compiler's error for this configuration
            answer = _Made(_reason(error, _text(printed)))
    return msgspec.msgpack.encode(answer)


def _text(printed: IO[bytes]) -> str:
    printed.seek(0)
    return printed.read().decode(errors="replace")


def _compiled(jit: Any, target: Target, settings: Mapping[str, Any]) -> Any:
    signature, constants = {}, {}
    attributes: dict[tuple[int], list[list[Any]]] = {}
    for index, name in enumerate(jit.arg_names):
        match settings[name]:
            case Specialised(kind, divisible):
                signature[name] = kind
                if divisible:
                    attributes[index,] = [DIVISIBLE]
                if target.backend == "hip" and kind.startswith("*"):  # an array below 2 GiB, as most are
                    attributes.setdefault((index,), []).append(["tt.pointer_range", 32])
            case Tensor(kind, block):
                signature[name] = f"tensordesc<{kind}[{', '.join(map(str, block))}]>"
            case value:
                signature[name], constants[name] = "constexpr", value
    options = {name: settings[name] for name in target.options if settings.get(name)}  # 0: Triton's default
    source = _ast_source(jit, signature, constants, attributes)
    return triton().compiler.compile(source, _gpu_target(target), options)


def _gpu_target(target: Target) -> Any:
    return triton().backends.compiler.GPUTarget(target.backend, target.arch, target.warp_size)


def _ast_source(
    jit: Any, signature: Mapping[str, str], constants: Mapping[str, Any], attributes: Mapping[tuple[int], Any]
) -> Any:
    """Return Triton's form of a specialisation. Until Triton 3.2 constants are not in the signature, and
    divisible arguments are listed."""
    compiler = triton().compiler.compiler
    description = getattr(compiler, "AttrsDescriptor", None)
    if description is None:
        return compiler.ASTSource(jit, signature, constants, attributes)
    divisible = [index for (index,), known in attributes.items() if DIVISIBLE in known]
    if hasattr(description, "from_hints"):  # Triton 3.2
        properties = description.from_hints(dict.fromkeys(divisible, ALIGNED))
    else:
        properties = description(divisible_by_16=divisible, equal_to_1=[])
    signature = {name: kind for name, kind in signature.items() if kind != "constexpr"}
    return compiler.ASTSource(jit, signature, constants, properties)


def _passed(jitted: Function, settings: Mapping[str, Any], maps: Sequence[Box]) -> tuple[Passed, ...]:
    """Return the arguments of the parameters, except those that Triton adds at the end."""
    passed: list[Passed] = []
    waiting = list(maps)
    for index, parameter in enumerate(jitted.arguments):
        known = settings[parameter.name]
        if isinstance(known, Specialised):
            passed.append(Passed(index, fractions=has_fractions(known.type)))
        if not isinstance(known, Tensor):
            continue
        axes = range(len(known.block))
        shapes = [Passed(index, "shape", axis) for axis in axes]
        shapes += [Passed(index, "stride", axis) for axis in axes]
        if waiting:
            like = waiting.pop(0)
            passed.append(Passed(index, "map", box=like.block_size, swizzle=like.swizzle))
        else:  # code without maps takes the descriptor's parts
            passed += [Passed(index, "pointer"), *shapes, Passed(index, "flag"), Passed(index, "flag")]
        passed += shapes
    return tuple(passed)


def seen(name: str, kind: str, argument: Any) -> Any:
    """Return an argument as heuristics and hooks see it: None for no array, a placeholder for an array."""
    if kind == NONE:
        return None
    return Absent(name) if kind.startswith("*") or hasattr(argument, "block") else argument


def by_rule(rule: Any, arguments: Mapping[str, Any], where: str) -> Any:
    """Evaluate a heuristic. **Raises:** DseError that begins with `where` if it fails."""
    try:
        with no_driver(triton().runtime):
            result = rule(dict(arguments))
    except Exception as error:  # of any type: the user's function
        raise DseError(f"{where}: {type(error).__name__}: {one_line(str(error))}") from None
    if isinstance(result, Absent):
        raise DseError(f"{where}: found {result!r}, expected a value")
    return result


def constant(text: str) -> Any:
    """Parse a constant: a number, True, None, or a type such as `tl.float16` or `tl.fp16`; else a string."""
    name, dtype = text.removeprefix("tl."), triton().language.dtype
    if name != text:
        value = getattr(triton().language, name, None)
        known = [*dtype.SINT_TYPES, *dtype.UINT_TYPES, *dtype.FP_TYPES]
        return value if isinstance(value, dtype) else dtype(name) if name in known else text
    for read in (ast.literal_eval, float):
        try:
            return read(text)
        except (ValueError, SyntaxError):
            continue
    return text


def _reason(error: BaseException, printed: str) -> str:
    """Return the innermost error's message, and the line of the kernel at which the compiler stopped."""
    location = _line_of(error)
    while error.__cause__ is not None:
        error = error.__cause__
        location = _line_of(error) or location
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[-1] if lines else type(error).__name__
    if assembler := _OF_ASSEMBLER.search(str(error)):
        return assembler[1]
    if _SAID_BEFORE.search(said) and (before := _OF_LIBRARIES.search(printed)):
        said, location = before[1], " ".join((before[2] or "").split()) or location
    said = f"{type(error).__name__}: {said}" if isinstance(error, LookupError) else said
    return f"{said}, at `{location}`" if location else said


def _line_of(error: BaseException) -> str:
    lines, number = getattr(error, "src", None), getattr(getattr(error, "node", None), "lineno", None)
    return lines.splitlines()[number - 1].strip() if isinstance(lines, str) and number else ""


@contextmanager
def _silence() -> Iterator[IO[bytes]]:
    """Suppress what the compiler prints and warns of.

    Its libraries' output to standard error goes to a file, yielded.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with (
            tempfile.TemporaryFile() as swallowed,
            redirect_stdout(StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            os.dup2(swallowed.fileno(), 2)
            yield swallowed
    finally:
        os.dup2(kept, 2)
        os.close(kept)
