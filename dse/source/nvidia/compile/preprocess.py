"""A source's text after the preprocessor: branches chosen, macros replaced."""

from functools import lru_cache
from io import StringIO
from typing import NoReturn

from dse.source.nvidia.compile.nvrtc import CudaSource
from dse.source.nvidia.compile.options import directives

_OF_CUDA = "#define __CUDACC__ 1\n#define __CUDA_ARCH__ 800\n"
_OF_HIP = "#define __HIP__ 1\n#define __HIPCC__ 1\n#define __HIP_PLATFORM_AMD__ 1\n"


@lru_cache(maxsize=16)
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
    target = _OF_HIP if source.path.endswith(".hip") else _OF_CUDA
    headers = (header for _, header in source.headers)
    whole = "\n".join((target, directives(source.options)[1], *headers, source.text))
    preprocessor.parse(whole)
    try:
        preprocessor.write(text)
    except IndexError:  # a directive without the name or expression that it needs
        return whole
    return text.getvalue()
