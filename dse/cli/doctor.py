"""`dse doctor`: what is installed here, and what is missing for what."""

import os
import platform
import re
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dse.cli.options import CsvOption, JsonOption, present

app = typer.Typer(rich_markup_mode="rich")

PACKAGE = "gpu-dse"
EXTRAS = {  # and what each is for
    "cuda": "kernels from CUDA source (--source, .cu, .ptx, .cubin)",
    "triton": "Triton kernels",
    "amd": "kernels from source for AMD GPUs",
    "cluster": "sweeps on several machines",
    "tuners": "Kernel Tuner",
    "docs": "building these docs",
}
BESIDE = {"pandas": "`.to_pandas()` of results"}
PROGRAMS = {"nvidia-smi": "dse measure, which needs an NVIDIA GPU"}


@app.command(epilog="Example: [bold]dse doctor[/bold]")
def doctor(
    json: JsonOption = False,
    csv: CsvOption = False,
    devices: Annotated[
        bool, typer.Option("--devices/--no-devices", help="Ask JAX for its devices, which takes a second.")
    ] = True,
) -> None:
    """Show versions, devices, cores, caches, which extras are installed, and what is missing for what.

    Everything but what it says of the extras works without them. Paste its output into a bug report.
    """
    rows = [*_here(), *(_devices() if devices else ()), *_extras(), _cache()]
    present(rows, title=f"dse {_version(PACKAGE)}", json=json, csv=csv, out=None)


def _here() -> list[dict[str, Any]]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    packages = ("jax", "numpy", "numba", "optuna", "pyarrow")
    return [
        _row("python", "ok", f"{python}, {sys.executable}"),
        _row("system", "ok", f"{platform.system()} {platform.machine()}, {cores} cores"),
        _row("packages", "ok", ", ".join(f"{name} {_version(name)}" for name in packages)),
    ]


def _devices() -> list[dict[str, Any]]:
    import jax

    try:
        found = ", ".join(f"{device.platform} ({device.device_kind})" for device in jax.devices())
    except RuntimeError as error:  # of a plugin that finds no device
        return [_row("devices of JAX", "broken", str(error).partition("\n")[0])]
    return [_row("devices of JAX", "ok", f"{found}: models run there")]


def _extras() -> list[dict[str, Any]]:
    rows = []
    for extra, use in EXTRAS.items():
        missing = [name for name in _packages_of(extra) if _version(name) is None]
        if missing:
            rows.append(
                _row(extra, "missing", f"for {use}: pip install '{PACKAGE}[{extra}]' ({', '.join(missing)})")
            )
        else:
            rows.append(_row(extra, "ok", use))
    for name, use in BESIDE.items():
        found = _version(name)
        rows.append(_row(name, "ok", f"{found}: {use}") if found else _row(name, "missing", f"for {use}"))
    for name, use in PROGRAMS.items():
        found = shutil.which(name)
        rows.append(_row(name, "ok", found) if found else _row(name, "missing", f"for {use}"))
    return rows


def _packages_of(extra: str) -> list[str]:
    """The packages that an extra installs, by what the package itself requires."""
    from importlib import metadata

    texts = [
        text for text in metadata.requires(PACKAGE) or () if re.search(rf"extra == ['\"]{extra}['\"]", text)
    ]
    return [name[0] for text in texts if (name := re.match(r"[\w.-]+", text))]


def _cache() -> dict[str, Any]:
    from dse.files import cache_folder

    folder = cache_folder()
    size = sum(path.stat().st_size for path in _files(folder))
    return _row("cache", "ok", f"{folder}: {size / 2**20:.1f} MiB; it can be deleted at any time")


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []


def _version(name: str) -> str | None:
    from importlib import metadata  # takes a tenth of `dse --help`

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _row(part: str, state: str, what: str) -> dict[str, Any]:
    return {"part": part, "state": state, "what": what}
