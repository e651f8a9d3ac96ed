"""A source's text after the preprocessor: branches chosen, macros replaced."""

from io import StringIO
from typing import NoReturn

from dse.source.nvidia.compile.nvrtc import CudaSource

_DEFINED = ("--define-macro=", "-D")
_TARGET = ("__CUDACC__ 1", "__CUDA_ARCH__ 800", "__HIPCC__ 1")


def preprocessed(source: CudaSource) -> str:
    """Return the source and its own headers, by the macros of its options, without other headers."""
    import pcpp

    class Preprocessor(pcpp.Preprocessor):
        def on_file_open(self, is_system_include: bool, includepath: str) -> NoReturn:
            """Open no file: the source's own headers are there already."""
            raise FileNotFoundError(includepath)

        def on_include_not_found(
            self, is_malformed: bool, is_system_include: bool, curdir: str, includepath: str
        ) -> NoReturn:
            raise pcpp.OutputDirective(pcpp.Action.IgnoreAndRemove)

        def on_error(self, file: str, line: int, msg: str) -> None:
            """The compiler reports errors, later."""

    preprocessor, text = Preprocessor(), StringIO()
    for option in source.options:
        if prefix := next((prefix for prefix in _DEFINED if option.startswith(prefix)), ""):
            name, has_value, value = option.removeprefix(prefix).partition("=")
            preprocessor.define(f"{name} {value if has_value else 1}")
    for macro in _TARGET:
        preprocessor.define(macro)
    whole = "\n".join((*(header for _, header in source.headers), source.text))
    preprocessor.parse(whole)
    try:
        preprocessor.write(text)
    except IndexError:  # an `#if` without an expression
        return whole
    return text.getvalue()
