"""Options for a kernel's source file: launch, macros, arguments and constants."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from dse.cli.inputs.values import settings
from dse.core.commas import split
from dse.errors import DseError

if TYPE_CHECKING:
    from dse.kernels.counts import Number
    from dse.source.readers.given import Given

_TRUTH = {"True": True, "False": False}


@dataclass(frozen=True)
class LaunchOptions:
    """Options for compiling and launching the kernel of a source file."""

    panel: ClassVar = "A kernel from a source file"

    function: Annotated[
        str | None, typer.Option(metavar="NAME", help="The kernel, if the file has several: scale, scale<4>.")
    ] = None
    block: Annotated[
        str | None,
        typer.Option(metavar="X[,Y[,Z]]", help="Threads of a block, if the file does not state them."),
    ] = None
    grid: Annotated[
        str | None, typer.Option(metavar="X[,Y[,Z]]", help="Blocks, if the file does not state them.")
    ] = None
    arguments: Annotated[
        list[str] | None,
        typer.Option(
            "--arg",
            metavar="[NAME=]VALUE",
            help="An argument: a number, SIZE[:TYPE[:VALUES]] of an array, or ? if unknown. VALUES is an "
            "expression of index and random. By name or in order; repeatable. Omitted ones are unknown.",
        ),
    ] = None
    define: Annotated[
        list[str] | None,
        typer.Option(
            "--define", "-D", metavar="NAME=VALUE", help="A macro that is not a parameter; repeatable."
        ),
    ] = None
    include: Annotated[
        list[str] | None,
        typer.Option(
            "--include",
            "-I",
            metavar="FOLDER",
            help="A folder of headers, searched after the file's own; repeatable.",
        ),
    ] = None
    shared: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Dynamic shared memory of a block: 4096, or 4*TILE.")
    ] = None
    tune: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=V1,V2,...",
            help="A macro of a .cu file and its values, usable in --block, --grid and --shared; repeatable.",
        ),
    ] = None
    signature: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE,TYPE,...",
            help="Triton: types of the arguments, in order or as NAME=TYPE: *fp16, i32, "
            "tensordesc<fp16[M,K]>, or a number that is compiled in.",
        ),
    ] = None
    constexpr: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=V1,V2,...",
            help="Triton: a constant and its values, or one word or type; repeatable.",
        ),
    ] = None
    num_warps: Annotated[str | None, typer.Option(metavar="V1,V2,...", help="Triton; default: 4.")] = None
    num_stages: Annotated[str | None, typer.Option(metavar="V1,V2,...", help="Triton; default: 3.")] = None
    num_ctas: Annotated[str | None, typer.Option(metavar="V1,V2,...", help="Triton; default: 1.")] = None

    def given(self, sizes: Mapping[str, "Number"] | None = None) -> "Given":
        """Convert to the library's form. Numeric constants and options of Triton are tuned, like --tune.

        **Raises:** DseError for invalid sizes and macros.
        """
        from dse.source.readers.given import Given

        options = {"num_warps": self.num_warps, "num_stages": self.num_stages, "num_ctas": self.num_ctas}
        constants = self.constexpr or ()
        words = [text for text in constants if _is_word(text.partition("=")[2])]
        numbers = [text for text in constants if text not in words]
        numbers += [f"{name}={values}" for name, values in options.items() if values is not None]
        return Given(
            function=self.function or "",
            block=_sizes("--block", self.block),
            grid=_sizes("--grid", self.grid),
            arguments=tuple(self.arguments or ()),
            defines=tuple(map(_macro, [*(self.define or ()), *words])),
            folders=tuple(self.include or ()),
            shared_bytes=self.shared,
            tuned=(
                *(_tuned(text, "--tune") for text in self.tune or ()),
                *(_tuned(text, "--constexpr") for text in numbers),
            ),
            signature=tuple(split(self.signature, "<>[]")) if self.signature else (),
            sizes=tuple((sizes or {}).items()),
        )


def _sizes(option: str, text: str | None) -> tuple["int | str", ...]:
    """Split `X[,Y[,Z]]`, numbers or expressions; () for None."""
    if text is None:
        return ()
    if re.fullmatch(r"\d+(x\d+)+", text):
        raise DseError(f"{option}: found {text!r}, expected {text.replace('x', ',')}")
    sizes = split(text)
    named = re.search(r"[A-Za-z_*/+(]", text)
    if len(sizes) > 3 or not (named or all(re.fullmatch(r"\s*0*[1-9]\d{0,18}\s*", size) for size in sizes)):
        raise DseError(f"{option}: found {text!r}, expected X[,Y[,Z]], whole numbers above 0")
    return tuple(sizes) if named else tuple(map(int, sizes))


def _is_word(value: str) -> bool:
    """Whether the value of a constant is not a list of numbers: text, a type, or beyond 64 bits."""
    try:
        numbers = [float(_TRUTH.get(part.strip(), part)) for part in value.split(",")]
    except ValueError:
        return "," not in value
    from dse.core.space.space import holds  # imports jax: seconds

    return len(numbers) == 1 and not holds(numbers[0])


def _tuned(text: str, option: str) -> tuple[str, tuple["Number", ...]]:
    name, equals, values = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise DseError(f"{option}: found {text!r}, expected NAME=V1,V2,...")
    return name.strip(), tuple(
        _TRUTH[value.strip()]
        if value.strip() in _TRUTH
        else settings([f"{name}={value}"], option)[name.strip()]
        for value in values.split(",")
    )


def _macro(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name.strip().isidentifier():
        raise DseError(f"--define: found {text!r}, expected NAME=VALUE")
    return name.strip(), value.strip() if equals else "1"
