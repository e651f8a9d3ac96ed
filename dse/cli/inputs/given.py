"""What a command says of a kernel's source and its launch besides the file."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dse.cli.inputs.values import settings
from dse.errors import DseError

if TYPE_CHECKING:
    from dse.kernels.counts import Number
    from dse.source.readers.given import Given

_TRUTH = {"True": "1", "False": "0"}


def launch(
    function: str | None = None,
    block: str | None = None,
    grid: str | None = None,
    arguments: Sequence[str] | None = None,
    defines: Sequence[str] | None = None,
    shared: int | None = None,
    tune: Sequence[str] | None = None,
    signature: str | None = None,
    constexprs: Sequence[str] | None = None,
    options: Mapping[str, str | None] | None = None,
    sizes: Mapping[str, "Number"] | None = None,
) -> "Given":
    """Collect what is said of a kernel besides its file. DseError for sizes and macros of another form.

    `constexprs` and `options` are of a Triton kernel: those that have numbers are tried, as `tune` is.
    """
    from dse.source.readers.given import Given

    tried = [f"{name}={values}" for name, values in (options or {}).items() if values is not None]
    words = [text for text in constexprs or () if re.fullmatch(r"\s*\w+\s*=\s*[A-Za-z_][\w.]*\s*", text)]
    numbers = [text for text in [*(constexprs or ()), *tried] if text not in words]

    return Given(
        function=function or "",
        block=_sizes("--block", block),
        grid=_sizes("--grid", grid),
        arguments=tuple(arguments or ()),
        defines=tuple(map(_macro, [*(defines or ()), *words])),
        shared_bytes=shared,
        tuned=(
            *(_tuned(text, "--tune") for text in tune or ()),
            *(_tuned(text, "--constexpr") for text in numbers),
        ),
        signature=tuple(re.split(r",(?![^<]*>)", signature)) if signature else (),
        sizes=tuple((sizes or {}).items()),
    )


def _sizes(option: str, text: str | None) -> tuple["int | str", ...]:
    """Split `X[,Y[,Z]]`, numbers or expressions; () for None."""
    if text is None:
        return ()
    sizes = re.split(r",(?![^(]*\))", text)  # not within parentheses
    named = re.search(r"[A-Za-z_]", text)
    if len(sizes) > 3 or not (named or all(re.fullmatch(r"\s*0*[1-9]\d{0,18}\s*", size) for size in sizes)):
        raise DseError(f"{option}: found {text!r}, expected X[,Y[,Z]], whole numbers above 0")
    return tuple(sizes) if named else tuple(map(int, sizes))


def _tuned(text: str, option: str) -> tuple[str, tuple["Number", ...]]:
    name, equals, values = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise DseError(f"{option}: found {text!r}, expected NAME=V1,V2,...")
    return name.strip(), tuple(
        settings([f"{name}={_TRUTH.get(value.strip(), value)}"], option)[name.strip()]
        for value in values.split(",")
    )


def _macro(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name.strip().isidentifier():
        raise DseError(f"--define: found {text!r}, expected NAME=VALUE")
    return name.strip(), value.strip() if equals else "1"
