"""Turns what commands take in common, kernels, GPUs, models and `--set`, into what the library wants."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dse import catalogue
from dse.errors import DseError, one_line, one_of
from dse.models import DEFAULT, MODELS, get, get_all
from dse.models.pipeline import Pipeline

if TYPE_CHECKING:
    from dse.counts import Counts, Number
    from dse.gpus.read import GpuFile
    from dse.kernels.description import Description
    from dse.models.protocol import Model
    from dse.simulator.pipeline import Settings
    from dse.sources.given import Given


def complete_kernels(incomplete: str) -> list[str]:
    """The names of kernels that begin so, for the shell's completion: by their folders, nothing is read."""
    names = (path.parent.name for path in catalogue.folder("kernels").glob("*/kernel.toml"))
    return sorted(name for name in names if name.startswith(incomplete.replace("-", "_")))


def complete_gpus(incomplete: str) -> list[str]:
    """The names of GPUs that begin so, likewise."""
    names = (path.stem.replace("_", "-") for path in catalogue.folder("gpus").glob("*.toml"))
    return sorted(name for name in names if name.startswith(incomplete.replace("_", "-")))


def complete_models(incomplete: str) -> list[str]:
    """The names of models that begin so."""
    return [name for name in MODELS if name.startswith(incomplete)]


KernelArgument = Annotated[
    str,
    typer.Argument(
        metavar="KERNEL",
        help="A kernel of `dse kernels`, a kernel.toml, or a T1.json.",
        autocompletion=complete_kernels,
    ),
]
SourceArgument = Annotated[
    str,
    typer.Argument(
        metavar="KERNEL",
        help="A kernel of `dse kernels`, or a file: kernel.toml, T1.json, .py:KERNEL (Triton), .cu, .ptx, "
        ".cubin, .sass.",
        autocompletion=complete_kernels,
    ),
]
KernelsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="KERNEL...",
        help="Kernels of `dse kernels`, or kernel.toml files.",
        autocompletion=complete_kernels,
    ),
]
PriorOption = Annotated[
    list[Path] | None,
    typer.Option("--prior", metavar="FILE", help="Recorded times of the kernel on another GPU; repeatable."),
]
GpuOption = Annotated[
    str,
    typer.Option(
        "--gpu", "-g", metavar="GPU", help="A GPU of `dse gpus`, or a GPU file.", autocompletion=complete_gpus
    ),
]
GpusOption = Annotated[
    list[str],
    typer.Option(
        "--gpu",
        "-g",
        metavar="GPU",
        help="A GPU of `dse gpus`, or a GPU file; repeatable.",
        autocompletion=complete_gpus,
    ),
]
ModelsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help=f"One of {', '.join(MODELS)}; repeatable.",
        autocompletion=complete_models,
    ),
]
ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help=f"One of {', '.join(MODELS)}.",
        autocompletion=complete_models,
    ),
]
ClosedFormOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help="A closed form of `dse models`.",
        autocompletion=complete_models,
    ),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Of pipeline: which ready warp goes first, rr (default), gto or oldest."
    ),
]
OrderOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Of pipeline: a warp's instructions in program order (default) or dataflow order.",
    ),
]
MOST_SEED = 2**32 - 1  # that NumPy takes
GroupsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=2**31 - 1,
        help="Of pipeline: simulate so many blocks of one SM from start to end, two rounds at least; "
        "without it, samples are.",
    ),
]
FunctionOption = Annotated[
    str | None,
    typer.Option("--function", metavar="NAME", help="The kernel, where a file has several: scale, scale<4>."),
]
BlockOption = Annotated[
    str | None,
    typer.Option("--block", metavar="X[,Y[,Z]]", help="Threads of a block, where the file does not say it."),
]
GridOption = Annotated[
    str | None,
    typer.Option("--grid", metavar="X[,Y[,Z]]", help="Blocks, where the file does not say it."),
]
DefineOption = Annotated[
    list[str] | None,
    typer.Option("--define", "-D", metavar="NAME=VALUE", help="A macro that is no parameter; repeatable."),
]
ArgumentOption = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        metavar="[NAME=]VALUE",
        help="An argument: a number, SIZE[:TYPE[:VALUES]] of an array, or ? if it is not known. VALUES is an "
        "expression of index and random. By name or in order; repeatable. Those left out are not known.",
    ),
]
SourceOption = Annotated[
    bool, typer.Option("--source", help="Count what the CUDA source does, not what the description says.")
]
SampleOption = Annotated[
    int | None,
    typer.Option("--sample", metavar="N", min=1, help="So many configurations only, taken at random."),
]
CompileOption = Annotated[
    int | None,
    typer.Option(
        "--compile",
        metavar="N",
        help="Of a source: compile so many configurations, and estimate the others from them.",
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers", metavar="N", min=1, help="Compile and run sources on so many processes, by Dask."
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Compile and run sources on the Dask cluster of this scheduler: tcp://HOST:8786.",
    ),
]
SharedOption = Annotated[
    int | None,
    typer.Option("--shared", metavar="BYTES", min=0, help="Shared memory of a block that the launch adds."),
]
TuneOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tune",
        metavar="NAME=V1,V2,...",
        help="A macro of a .cu file and its values; --block and --grid may be expressions of it; repeatable.",
    ),
]
SignatureOption = Annotated[
    str | None,
    typer.Option(
        "--signature",
        metavar="TYPE,TYPE,...",
        help="Of a Triton kernel: types of its arguments as Triton writes them, in order or as NAME=TYPE: "
        "*fp16, i32, tensordesc<fp16[BLOCK_M,BLOCK_K]>, or a number that is compiled in.",
    ),
]
ConstexprOption = Annotated[
    list[str] | None,
    typer.Option(
        "--constexpr",
        metavar="NAME=V1,V2,...",
        help="A constant of a Triton kernel and its values, or one word or type; repeatable.",
    ),
]
WarpsOption = Annotated[
    str | None, typer.Option("--num-warps", metavar="V1,V2,...", help="Of a Triton kernel; 4 without it.")
]
StagesOption = Annotated[
    str | None, typer.Option("--num-stages", metavar="V1,V2,...", help="Of a Triton kernel; 3 without it.")
]
CtasOption = Annotated[
    str | None, typer.Option("--num-ctas", metavar="V1,V2,...", help="Of a Triton kernel; 1 without it.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Fix a parameter or change a problem size; repeatable."),
]
SpaceOption = Annotated[
    Path | None,
    typer.Option(
        "--space",
        metavar="FILE",
        help="Take parameters, values and conditions from a T1 problem; or only those configurations that "
        "a table lists, as -o writes it.",
    ),
]


def models(
    names: Sequence[str] | None,
    default: Sequence[str] = (DEFAULT,),
    scheduler: str | None = None,
    order: str | None = None,
    groups: int | None = None,
) -> tuple["Model", ...]:
    """Return the models asked for, each once; the simulator with what is asked of it.

    **Raises:** DseError for one that there is not, or for settings where nothing is simulated.
    """
    chosen = get_all(dict.fromkeys(names or default))
    asked = {"scheduler": scheduler, "order": order, "groups": groups}
    asked = {name: value for name, value in asked.items() if value is not None}
    simulators = [model for model in chosen if isinstance(model, Pipeline)]
    if not simulators:
        for name, value in asked.items():
            shown = ", ".join(model.name for model in chosen)
            raise DseError(f"--{name}: found {value} with {shown}, expected --model pipeline")
        return chosen
    settings = simulated(asked)
    return tuple(
        replace(model, scheduler=settings.scheduler, order=settings.order, groups=settings.groups)
        if isinstance(model, Pipeline)
        else model
        for model in chosen
    )


def closed_form(name: str | None) -> "Model":
    """Return the closed form asked for, else the default model. **Raises:** DseError for another model."""
    model = get(name or DEFAULT)
    if not model.differentiable:
        raise DseError(f"--model: found {model.name}, expected a closed form")
    return model


def simulated(asked: Mapping[str, Any]) -> "Settings":
    """Return how to simulate, by scheduler, order and groups asked for. DseError for an unknown name."""
    from dse.simulator.case.program import ORDERS, SCHEDULERS
    from dse.simulator.pipeline import Settings

    for name, allowed in (("scheduler", SCHEDULERS), ("order", ORDERS)):
        if asked.get(name, allowed[0]) not in allowed:
            raise DseError(f"--{name}: found {asked[name]!r}, {one_of(str(asked[name]), allowed)}")
    return Settings(**asked)


def settings(texts: Sequence[str] | None, option: str = "--set") -> dict[str, "Number"]:
    """Read the `NAME=VALUE` of each --set. DseError for another form or a value that is no number."""
    values: dict[str, Number] = {}
    for text in texts or ():
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise DseError(f"{option}: found {text!r}, expected NAME=VALUE")
        try:
            values[name] = int(value)
        except ValueError:
            try:
                values[name] = float(value)
            except ValueError:
                raise DseError(f"{option}: {name}: found {value!r}, expected a number") from None
    return values


def lists(texts: Sequence[str] | None, option: str = "--set") -> dict[str, tuple["Number", ...]]:
    """Read the `NAME=V1,V2,...` of each --set. **Raises:** DseError for another form."""
    values: dict[str, tuple[Number, ...]] = {}
    for text in texts or ():
        name, equals, words = text.partition("=")
        if not equals:
            raise DseError(f"{option}: found {text!r}, expected NAME=V1,V2,...")
        each = [settings([f"{name}={word}"], option) for word in words.split(",")]
        values[name.strip()] = tuple(number for one in each for number in one.values())
    return values


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
    from dse.sources.given import Given

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


_TRUTH = {"True": "1", "False": "0"}


def _macro(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name.strip().isidentifier():
        raise DseError(f"--define: found {text!r}, expected NAME=VALUE")
    return name.strip(), value.strip() if equals else "1"


def description(
    name: str,
    changed: Mapping[str, "Number"],
    space: Path | None = None,
    given: "Given | None" = None,
) -> tuple["Description", dict[str, "Number"]]:
    """Return a kernel's description with `changed` parameters fixed, and its problem sizes.

    `space` is a T1 file that takes the place of the kernel's own tuning space, or a table of the
    configurations of it that are meant; `given` is what is said of
    its source.
    DseError for a name in `changed` that is neither parameter nor size.
    """
    from dse import sources

    loaded = sources.load(name, given)
    if space is not None:
        from dse.measured import listed
        from dse.sources import t1, t1_kernel

        if listed.is_table(space):
            loaded = listed.with_configurations(loaded, space)
        else:
            loaded = t1_kernel.with_space(loaded, t1.load(space))
    sizes = {key: value for key, value in changed.items() if key in dict(loaded.problem)}
    fixed = {key: value for key, value in changed.items() if key not in sizes}
    unknown = [key for key in fixed if key not in loaded.space.names]
    if unknown:
        allowed = [*loaded.space.names, *dict(loaded.problem)]
        raise DseError(f"--set: {loaded.name}: found {unknown[0]!r}, {one_of(unknown[0], allowed)}")
    if fixed:
        values = {key: (value,) for key, value in fixed.items()}
        loaded = replace(loaded, space=loaded.space.with_values(values, "--set"))
    for assumption in loaded.assumptions:
        typer.echo(f"assumed: {one_line(assumption)}", err=True)
    return loaded, loaded.sizes(**sizes)


def kernel(
    name: str,
    changed: Mapping[str, "Number"],
    space: Path | None = None,
    given: "Given | None" = None,
    source: bool = False,
    compiled: int | None = None,
) -> tuple["Counts", dict[str, "Number"]]:
    """Return what counts a kernel's configurations, by its description or its source; see `description`.

    **Raises:** DseError for --compile where nothing is compiled.
    """
    from dse import sources

    loaded, sizes = description(name, changed, space, given)
    if compiled is not None and not source and loaded.described:
        raise DseError(f"--compile: found {compiled} without --source, expected both")
    return sources.counts_of(loaded, source, compiled), sizes


def in_words(name: str, parameters: Mapping[str, "Number"]) -> str:
    """Say the values of those of a kernel's parameters that have a choice."""
    values = description(name, {})[0].space.values
    return ", ".join(f"{key}={value}" for key, value in parameters.items() if len(values[key]) > 1)


def several(
    names: Sequence[str], changed: Mapping[str, "Number"]
) -> list[tuple["Counts", dict[str, "Number"]]]:
    """Return what counts the configurations of several kernels; see `several_descriptions`."""
    from dse import sources

    return [(sources.counts_of(loaded), sizes) for loaded, sizes in several_descriptions(names, changed)]


def several_descriptions(
    names: Sequence[str], changed: Mapping[str, "Number"]
) -> list[tuple["Description", dict[str, "Number"]]]:
    """Read several kernels, each with those of `changed` that it knows. DseError for one that none knows."""
    from dse import sources

    kernels, unused, every = [], set(changed), dict[str, None]()
    for name in dict.fromkeys(names):
        loaded = sources.load(name)
        known = {*loaded.space.names, *dict(loaded.problem)}
        unused -= known
        every |= dict.fromkeys([*loaded.space.names, *dict(loaded.problem)])
        kernels.append(description(name, {key: value for key, value in changed.items() if key in known}))
    if unused:
        what = f"a parameter or size of {', '.join(names)}:"
        raise DseError(f"--set: found {min(unused)!r}, {one_of(min(unused), every, what)}")
    return kernels


def kernels_of_work(names: Sequence[str]) -> list[str]:
    """Return the names, with that of work which several kernels do replaced by theirs."""
    from dse import kernels

    replaced: list[str] = []
    for name in names:
        try:
            kernels.find(name)
            replaced.append(name)
        except DseError as unknown:
            try:
                replaced += kernels.variants(name)
            except DseError:
                raise unknown from None
    return replaced


def gpus(names: Sequence[str]) -> list["GpuFile"]:
    """Read the GPUs asked for, each once."""
    from dse import gpus

    files = {file.name: file for file in map(gpus.load, names)}
    return list(files.values())
