"""`dse`: mounts the commands and turns a user's mistake into one line."""

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
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog="Example: [bold]dse rank convolution --gpu a100-pcie-40gb[/bold]",
)
OPTIONS = {  # the library's name of a field: the option that gives it
    **{field: f"--{field}" for field in ("command", "free", "measured", "method", "objective", "risk")},
    **{field: f"--{field}" for field in ("cascade", "sample", "sampler", "shared", "storage", "within")},
    **{field: f"--{field}" for field in ("cluster", "columns", "order", "pareto", "per", "top", "workers")},
    **{field: f"--{field}" for field in ("prior", "refit", "scheduler", "where")},
    **{f"given.{field}": f"--{field}" for field in ("block", "function", "grid", "signature")},
    "compile": "--compile",
    "dtype": "--dtype",
    "scale_block": "--block",
    "given.arguments": "--arg",
    "given.constexprs": "--constexpr",
    "given.defines": "--define",
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
        bool, typer.Option("--traceback", help="Show where dse itself went wrong, if it does.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Say what takes how long.")] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Show no progress bar, and no conclusion beside JSON or CSV."),
    ] = False,
) -> None:
    """Explore the launch configurations of GPU kernels, by analytical models, without a GPU."""
    logging.basicConfig(format="dse: %(message)s")
    logging.getLogger("dse").setLevel(logging.INFO if verbose else logging.WARNING)
    if quiet and "DSE_QUIET" not in os.environ:
        os.environ["DSE_QUIET"] = "1"
        context.call_on_close(lambda: os.environ.pop("DSE_QUIET", None))


def run(arguments: Sequence[str] | None = None) -> None:
    """Run `dse` with `arguments`, by default those of the process, and exit.

    Exit codes: 0 done; 1 done, and a check of the command failed; 2 the user's mistake, told in one line; 130
    interrupted. What is none of these is a mistake of ours: one line, and 1.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    _assumed()  # those of one that failed before, in this process
    try:
        cache()
        with warnings.catch_warnings():
            warnings.showwarning = _show
            warnings.simplefilter("default", InputWarning)  # once each
            # Of arithmetic, by NumPy: what is not finite is reported in words. Tests have them as errors.
            warnings.simplefilter("ignore", RuntimeWarning, append=True)
            warnings.simplefilter("ignore", SyntaxWarning)  # of expressions, as Python reads them
            warnings.filterwarnings("ignore", DOES_WITHOUT)
            code = app(_global_first(words), standalone_mode=False)
        sys.stdout.flush()
        for assumption in _assumed():
            _tell(f"assumed: {one_line(assumption)}")
    except typer.TyperException as error:  # of flags; without a message where help was printed
        message = one_line(error.format_message()).rstrip(".")
        _end(f"{message}; --help tells what is allowed" if message else "")
    except DseError as error:
        _end(in_options(str(error)))
    except OSError as error:
        if error.filename is not None:
            _end(f"{error.filename}: {error.strerror}")
        if error.errno is None:  # of a library, not of the system
            _end_as_what_is_here(error)
            _unforeseen(error, words)
        _drop_output()  # a file without a name: standard output
        if error.errno == errno.EPIPE:  # its reader has seen enough
            sys.exit(0)
        if "temporary directory" in str(error):  # by tempfile
            _end(f"folder of temporary files: cannot write: {error.strerror}; TMPDIR names another")
        if error.errno == errno.ENOENT:  # what has no name, and should be there
            _end("current folder: found none, expected one that is still there")
        if error.errno in _SCARCE:
            _end(f"{_SCARCE[error.errno]}: found too little, expected more: {error.strerror}")
        _end(f"standard output: cannot write: {error.strerror or error}")
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # by rich, which ends with 1
            sys.exit(0)
        raise
    except MemoryError as error:  # of arrays, whose size NumPy tells
        _end(f"memory: found too little, expected a smaller problem: {error}".removesuffix(": "))
    except Exception as error:
        if isinstance(error, UnicodeEncodeError):  # surrogates: Python's stand-ins for bytes of a name
            found = error.object[max(error.start - 40, 0) : error.end + 40]
            _end(f"name: found {found!r}, which is no UTF-8, expected a file named in UTF-8")
        if "RESOURCE_EXHAUSTED" in str(error):  # by XLA
            _end(f"memory: found too little, expected a smaller problem: {error}")
        _end_as_what_is_here(error)
        _unforeseen(error, words)
    sys.exit(code)


def _global_first(words: Sequence[str]) -> list[str]:
    """Put the options of `dse` itself before the command: they may be after it as well."""
    end = words.index("--") if "--" in words else len(words)
    first = [word for word in words[:end] if word in GLOBAL]
    return first + [word for word in words[:end] if word not in GLOBAL] + list(words[end:])


def _assumed() -> list[str]:
    """Take what commands assumed of the kernels that they read, if they read any."""
    read = sys.modules.get("dse.cli.inputs.kernels")
    assumed = list(read.ASSUMED) if read else []
    if read:
        read.ASSUMED.clear()
    return assumed


def _end_as_what_is_here(error: Exception) -> None:
    """End with one line where a setting, or a package that cannot be imported, is what went wrong."""
    what = f"{type(error).__name__}: {error}"
    if isinstance(error, AssertionError):  # all that JAX says of a platform without a device
        what = f"{what}JAX_PLATFORMS finds no device"
    for name in re.findall(r"\b(?:JAX|NUMBA|XLA)_[A-Z0-9_]+\b", what):
        if name in os.environ:
            _end(f"environment: found {name}={os.environ[name]}, expected another value, or none: {what}")
    if package := _broken_import(error):
        found = f"found one that cannot be imported ({what})"
        _end(f"{package}: {found}, expected what pip install --force-reinstall gpu-dse installs")


def _broken_import(error: Exception) -> str:
    """Return the package that was being imported, where the code of another raised it."""
    missing = error.name or "" if isinstance(error, ImportError) else ""
    for frame, _ in walk_tb(error.__traceback__):
        module = frame.f_globals.get("__name__", "")
        if frame.f_code.co_name == "<module>" and module.partition(".")[0] not in ("", "__main__", "dse"):
            missing = module
    return missing.partition(".")[0]


def _unforeseen(error: Exception, words: Sequence[str]) -> NoReturn:
    if "--traceback" in words:
        raise error
    what = one_line(f"{type(error).__name__}: {error}")[:MOST_QUOTED]
    hint = "a mistake of dse: please report it; dse --traceback COMMAND shows more"
    print(f"dse: {what} ({hint})", file=sys.stderr)
    sys.exit(1)


def in_options(mistake: str) -> str:
    """Return the line with the library's name of a field replaced by the option that gives it.

    The field stands first, `sample: found …`, or last in brackets, `expected … (given.tuned)`.
    """
    return re.sub(
        r"^[\w.]+(?=: )|(?<= \()[\w.]+(?=\)$)", lambda field: OPTIONS.get(field[0], field[0]), mistake
    )


def _tell(line: str) -> None:
    """Write a line to standard error; on a terminal it is broken between words."""
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        line = textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
    print(line, file=sys.stderr, flush=True)


def _show(message: Warning | str, category: type[Warning], *where: Any) -> None:
    """Write a warning: one line for what the user gave."""
    if issubclass(category, InputWarning):
        _tell(f"dse: warning: {one_line(str(message))}")
    else:
        print(warnings.formatwarning(message, category, *where[:2]), file=sys.stderr, end="")


def _drop_output() -> None:
    """Write nowhere what is left for standard output, which Python would try once more at the end."""
    with suppress(OSError, ValueError):  # where it is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end(mistake: str) -> NoReturn:
    if mistake:
        try:
            _tell(f"dse: {one_line(mistake)}")
        except OSError:  # nobody can be told
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    sys.exit(2)
