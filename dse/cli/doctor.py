"""`dse doctor`: installed versions and extras, and what is missing."""

import os
import platform
import shutil
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated, Any

import typer
from packaging.requirements import Requirement

from dse.cli.options import Screen, command
from dse.core.cluster import processors
from dse.core.files import cache_folder, files_within, may_write

PACKAGE = "gpu-dse"
EXTRAS = {  # with their uses
    "fit": "dse fit, tune and prune",
    "plot": "charts as SVG, PNG or HTML",
    "cuda": "kernels from CUDA source (--source, .cu, .ptx, .cubin)",
    "triton": "Triton kernels",
    "amd": "kernels from source for AMD GPUs",
    "cmaes": "searches by CMA-ES",
    "cluster": "sweeps on several machines",
    "gp": "searches by Gaussian processes",
    "grpc": "studies behind Optuna's proxy",
    "tuners": "Kernel Tuner",
    "docs": "building these docs",
}
BESIDE = {"pandas": "`.to_pandas()` of results"}
PROGRAMS = {"nvidia-smi": "dse measure, which needs an NVIDIA GPU"}


@command("Example: [bold]dse doctor[/bold]")
def doctor(
    *,
    devices: Annotated[
        bool, typer.Option("--devices/--no-devices", help="List JAX's devices, which takes a second.")
    ] = True,
    screen: Screen,
) -> None:
    """Show versions, devices, cores, caches and installed extras, and what is missing.

    Extras are only needed for the features listed beside them. Paste the output into bug reports.
    """
    rows = [*_here(), *(_devices() if devices else ()), *extras(), _cache()]
    screen.present(rows, title=f"dse {_version(PACKAGE)}")
    other = [f"{row['part']} {row['state']}" for row in rows if row["state"] != "ok"]
    screen.conclude(
        "all that dse itself needs is here", sure=f"but {', '.join(other)}" if other else "nothing is missing"
    )


def _here() -> list[dict[str, Any]]:
    cores = processors()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    packages = ("jax", "numpy", "numba", "optuna", "pyarrow")
    return [
        _row("python", "ok", f"{python}, {sys.executable}"),
        _row("system", "ok", f"{platform.system()} {platform.machine()}, {cores} cores"),
        _row("packages", "ok", ", ".join(f"{name} {_version(name)}" for name in packages)),
    ]


def _devices() -> list[dict[str, Any]]:
    try:
        import jax

        devices = ", ".join(f"{device.platform} ({device.device_kind})" for device in jax.devices())
    except (RuntimeError, AssertionError, ImportError, OSError) as error:  # wrong settings, or a broken JAX
        reason = str(error).partition("\n")[0]
        reason = reason or f"JAX_PLATFORMS={os.environ.get('JAX_PLATFORMS')} finds none"
        return [_row("devices of JAX", "broken", reason)]
    return [_row("devices of JAX", "ok", f"{devices}: models run there")]


def extras(requirements: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """A row for each extra, by the package's requirements or the list `requirements`."""
    rows = []
    for extra, use in EXTRAS.items():
        needed = required(extra, requirements)
        versions = {str(requirement): _version(requirement.name) for requirement in needed}
        missing = [requirement.name for requirement in needed if versions[str(requirement)] is None]
        others = [
            f"{requirement.name} {installed}, expected {requirement.specifier}"
            for requirement in needed
            if (installed := versions[str(requirement)])
            and not requirement.specifier.contains(installed, prereleases=True)
        ]
        get = f"pip install '{PACKAGE}[{extra}]'"
        if missing:
            rows.append(_row(extra, "missing", f"for {use}: {get} ({', '.join(missing)})"))
        elif others:
            rows.append(_row(extra, "other", f"found {'; '.join(others)}: {get}"))
        else:
            rows.append(_row(extra, "ok", use))
    for name, use in BESIDE.items():
        installed = _version(name)
        row = _row(name, "ok", f"{installed}: {use}") if installed else _row(name, "missing", f"for {use}")
        rows.append(row)
    for name, use in PROGRAMS.items():
        path = shutil.which(name)
        rows.append(_row(name, "ok", path) if path else _row(name, "missing", f"for {use}"))
    return rows


def required(extra: str, requirements: Sequence[str] | None = None) -> list[Requirement]:
    """The requirements of an extra on this machine."""
    return [
        requirement
        for requirement in map(Requirement, requirements or metadata.requires(PACKAGE) or ())
        if requirement.marker
        and not requirement.marker.evaluate()
        and requirement.marker.evaluate({"extra": extra})
    ]


def _cache() -> dict[str, Any]:
    folder = cache_folder()
    if not may_write(folder):
        problem = f"found no right to write to {folder}: set DSE_CACHE to a folder of yours"
        return _row("cache", "other", problem)
    size = sum(path.stat().st_size for path in files_within(folder))
    return _row("cache", "ok", f"{folder}: {size / 2**20:.1f} MiB; it can be deleted at any time")


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _row(part: str, state: str, what: str) -> dict[str, Any]:
    return {"part": part, "state": state, "what": what}
