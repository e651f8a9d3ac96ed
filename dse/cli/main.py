"""The `dse` application: global options, and errors as one line."""

import errno
import logging
import os
import re
import shutil
import sys
import textwrap
import warnings
from collections.abc import Sequence
from contextlib import suppress
from traceback import walk_tb
from typing import Annotated, Any, NoReturn

import typer

from dse.cli.commands import Commands
from dse.core.jax_cache import DOES_WITHOUT, cache
from dse.errors import MOST_QUOTED, DseError, InputWarning, one_line

app = typer.Typer(
    name="dse",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Example: [bold]dse rank convolution --gpu a100-pcie-40gb[/bold]",
)
SAME = """
    command free measured method objective risk cascade sample sampler shared storage within
    cluster columns device order pareto per top workers prior refit scheduler where compile dtype
"""  # names of fields and options
OPTIONS = {  # field names in the library's messages: the corresponding options
    **{field: f"--{field}" for field in SAME.split()},
    **{f"given.{field}": f"--{field}" for field in ("block", "function", "grid", "signature")},
    "scale_block": "--block",
    "given.arguments": "--arg",
    "given.constexprs": "--constexpr",
    "given.defines": "--define",
    "given.folders": "--include",
    "given.shared_bytes": "--shared",
    "given.tuned": "--tune",
    "values": "--set",
    "what_if": "--what-if",
}

GLOBAL = ("--version", "--traceback", "--verbose", "--quiet", "-q")

_SCARCE = {
    errno.EAGAIN: "processes",
    errno.ENOMEM: "memory",
    errno.EMFILE: "open files",
    errno.ENFILE: "open files",
}


def _print_version(wanted: bool) -> bool:
    if wanted:
        from dse.core.version import __version__

        print(f"dse {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show the traceback of an internal error.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show how long each step takes.")] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Show no progress bar, and no conclusion with JSON or CSV."),
    ] = False,
) -> None:
    """Explore the launch configurations of GPU kernels with analytical models, without a GPU."""
    logging.basicConfig(format="dse: %(message)s")
    logging.getLogger("dse").setLevel(logging.INFO if verbose else logging.WARNING)
    if quiet and "DSE_QUIET" not in os.environ:
        os.environ["DSE_QUIET"] = "1"
        context.call_on_close(lambda: os.environ.pop("DSE_QUIET", None))


def run(arguments: Sequence[str] | None = None) -> None:
    """Run `dse` with `arguments` (default: the process's), and exit.

    Exit codes: 0 success; 1 a check of the command failed, or an internal error; 2 a user mistake, reported
    in one line; 130 interrupted.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    _assumed()  # clears those of a failed run in this process
    try:
        cache()
        with warnings.catch_warnings():
            warnings.showwarning = _show
            warnings.simplefilter("default", InputWarning)  # once each
            # NumPy's, on values that are not finite; these are reported otherwise. Errors in tests.
            warnings.simplefilter("ignore", RuntimeWarning, append=True)
            warnings.simplefilter("ignore", SyntaxWarning)  # Python's, on users' expressions
            warnings.filterwarnings("ignore", DOES_WITHOUT)
            code = app(_global_first(words), standalone_mode=False)
        sys.stdout.flush()
        for assumption in _assumed():
            _print_error(f"assumed: {one_line(assumption)}")
    except typer.TyperException as error:  # invalid options; no message if help was printed
        message = one_line(error.format_message()).rstrip(".")
        _end(f"{message}; --help tells what is allowed" if message else "")
    except DseError as error:
        _end(in_options(str(error)))
    except OSError as error:
        if error.filename is not None:
            _end(f"{error.filename}: {error.strerror}")
        if error.errno is None:  # from a library, not the system
            _end_if_environment(error)
            _internal_error(error, words)
        _drop_output()  # no file name: standard output
        if error.errno == errno.EPIPE:  # the reader closed the pipe
            sys.exit(0)
        if "temporary directory" in str(error):  # from tempfile
            _end(f"folder of temporary files: cannot write: {error.strerror}; TMPDIR names another")
        if error.errno == errno.ENOENT:  # the working directory was removed
            _end("current folder: found none, expected one that is still there")
        if error.errno in _SCARCE:
            _end(f"{_SCARCE[error.errno]}: found too little, expected more: {error.strerror}")
        _end(f"standard output: cannot write: {error.strerror or error}")
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # from rich, which exits with 1
            sys.exit(0)
        raise
    except MemoryError as error:  # with the array's size, from NumPy
        _end(f"memory: found too little, expected a smaller problem: {error}".removesuffix(": "))
    except Exception as error:
        if isinstance(error, UnicodeEncodeError):  # surrogates, for undecodable bytes of a file name
            name = error.object[max(error.start - 40, 0) : error.end + 40]
            _end(f"name: found {name!r}, which is no UTF-8, expected a file named in UTF-8")
        if "RESOURCE_EXHAUSTED" in str(error):  # from XLA
            _end(f"memory: found too little, expected a smaller problem: {error}")
        _end_if_environment(error)
        _internal_error(error, words)
    sys.exit(code)


def _global_first(words: Sequence[str]) -> list[str]:
    """Move global options before the command: they are accepted after it too."""
    end = words.index("--") if "--" in words else len(words)
    first = [word for word in words[:end] if word in GLOBAL]
    return first + [word for word in words[:end] if word not in GLOBAL] + list(words[end:])


def _assumed() -> list[str]:
    """Return and clear the assumptions made about kernels."""
    module = sys.modules.get("dse.cli.inputs.kernels")
    assumed = list(module.ASSUMED) if module else []
    if module:
        module.ASSUMED.clear()
    return assumed


def _end_if_environment(error: Exception) -> None:
    """End with one line if an environment variable or a broken package caused the error."""
    description = f"{type(error).__name__}: {error}"
    if isinstance(error, AssertionError):  # JAX's only sign of a platform without a device
        description = f"{description}JAX_PLATFORMS finds no device"
    for name in re.findall(r"\b(?:JAX|NUMBA|XLA)_[A-Z0-9_]+\b", description):
        if name in os.environ:
            setting = f"{name}={os.environ[name]}"
            _end(f"environment: found {setting}, expected another value, or none: {description}")
    if package := _broken_import(error):
        problem = f"found one that cannot be imported ({description})"
        _end(f"{package}: {problem}, expected what pip install --force-reinstall gpu-dse installs")


def _broken_import(error: Exception) -> str:
    """Return the third-party package whose import raised the error, if any."""
    missing = error.name or "" if isinstance(error, ImportError) else ""
    for frame, _ in walk_tb(error.__traceback__):
        module = frame.f_globals.get("__name__", "")
        if frame.f_code.co_name == "<module>" and module.partition(".")[0] not in ("", "__main__", "dse"):
            missing = module
    return missing.partition(".")[0]


def _internal_error(error: Exception, words: Sequence[str]) -> NoReturn:
    if "--traceback" in words:
        raise error
    description = one_line(f"{type(error).__name__}: {error}")[:MOST_QUOTED]
    hint = "a mistake of dse: please report it; dse --traceback COMMAND shows more"
    print(f"dse: {description} ({hint})", file=sys.stderr)
    sys.exit(1)


def in_options(mistake: str) -> str:
    """Replace the library's name of a field in a message by the corresponding option.

    The field is first, `sample: found …`, or last in brackets, `expected … (given.tuned)`.
    """
    return re.sub(
        r"^[\w.]+(?=: )|(?<= \()[\w.]+(?=\))", lambda field: OPTIONS.get(field[0], field[0]), mistake
    )


def _print_error(line: str) -> None:
    """Write a line to standard error, wrapped between words on a terminal."""
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        line = textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
    print(line, file=sys.stderr, flush=True)


def _show(message: Warning | str, category: type[Warning], *where: Any) -> None:
    """Print a warning, in one line if it is about the user's input."""
    if issubclass(category, InputWarning):
        _print_error(f"dse: warning: {one_line(in_options(str(message)))}")
    else:
        print(warnings.formatwarning(message, category, *where[:2]), file=sys.stderr, end="")


def _drop_output() -> None:
    """Discard buffered standard output, which Python would try to flush at exit."""
    with suppress(OSError, ValueError):  # not a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end(mistake: str) -> NoReturn:
    if mistake:
        try:
            _print_error(f"dse: {one_line(mistake)}")
        except OSError:  # standard error is closed or full
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    sys.exit(2)
