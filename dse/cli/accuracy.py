"""`dse accuracy`: how near models come to measured times, and tuning to the optimum."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer

from dse.cli import inputs
from dse.cli.options import CommandGroup, JsonOption, present
from dse.core.files import around, fill
from dse.errors import DseError, one_line
from dse.models import DEFAULT, MODELS

MOST_PARTS = 1_000
SAMPLE = 300  # configurations of a table that are read from source
DESCRIBED, OWN = "measured spaces", "own measurements"  # sections of a page
COUNTS = ("configurations", "failed", "unpredicted")  # of a table: the same for all models, nearly


class _FolderOrCommand(CommandGroup):
    """A command with subcommands; what names none of them is what `spaces` is given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `spaces` before what is no subcommand."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["spaces", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="accuracy",
    cls=_FolderOrCommand,
    subcommand_metavar="DIR | COMMAND [ARGS]...",
    rich_markup_mode="rich",
    no_args_is_help=True,
)

FolderArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="One folder a space, in it one CSV or Parquet file a GPU.")
]
PageOption = Annotated[
    Path | None,
    typer.Option("--page", metavar="FILE", help="Write Markdown between the markers of a page; - prints it."),
]


@app.callback(
    epilog="Examples: [bold]dse accuracy DIR[/bold]; [bold]dse accuracy DIR --source --sample 50[/bold]; "
    "[bold]dse accuracy tuning DIR --seeds 1[/bold]"
)
def accuracy() -> None:
    """Score models on the measured spaces of a folder (`dse accuracy DIR`), or as a subcommand says."""


@app.command(
    epilog="Examples: [bold]dse accuracy DIR --model phase --model volkov[/bold]; "
    "[bold]dse accuracy DIR --source --set use_shmem=1 --page docs/accuracy.md[/bold]"
)
def spaces(
    folder: FolderArgument,
    model: inputs.ModelsOption = None,
    by_source: inputs.SourceOption = False,
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help=f"With --source: configurations of a table, at random ({SAMPLE})."
        ),
    ] = None,
    changed: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="With --source: fix a parameter of kernels; repeatable."
        ),
    ] = None,
    only: Annotated[
        str, typer.Option(metavar="TEXT", help="With --source: spaces or GPUs whose name holds this.")
    ] = "",
    json: JsonOption = False,
    page: PageOption = None,
) -> None:
    """Score models on the measured spaces of a folder (as well: `dse accuracy DIR`); nothing is fitted.

    DIR holds a folder for each space, named as under `spaces` of a kernel.toml, with one (gzip) CSV or
    Parquet file a GPU. The scores are those of `dse compare`. With --source, counts come from the kernels'
    CUDA source, for a sample of the configurations that ran; a page has a section for each vendor's GPUs.
    """
    _one_form(json, page, () if by_source else (DESCRIBED,))
    for option, value in (("--sample", sample), ("--set", changed), ("--only", only)):
        if value and not by_source:
            raise DseError(f"{option}: found without --source, expected both")
    models, settings = inputs.models(model, tuple(MODELS)), inputs.settings(changed)
    from dse.accuracy.models import described, from_source, markdown
    from dse.report.show import progress

    if by_source:
        scores = list(from_source(folder, sample or SAMPLE, settings, models, _note, progress, only))
    else:
        scores = list(described(folder, models, _note, progress))
    if json:
        _print_json({"tables": [space.as_dict() for space in scores]})
    elif page and by_source:
        for vendor in dict.fromkeys(space.vendor for space in scores):
            section = "from source" if vendor == "NVIDIA" else f"from source on {vendor}"
            _write(page, section, markdown(space for space in scores if space.vendor == vendor))
    elif page:
        _write(page, DESCRIBED, markdown(scores))
    else:
        for space in scores:
            rows = [{name: row[name] for name in row if name not in COUNTS} for row in space.rows]
            _show(rows, f"{space.space} on {space.gpu}: {space.summary}")
        from dse.report.conclusion import conclude

        ranks = {
            name: [row["spearman"] or 0.0 for space in scores for row in space.rows if row["model"] == name]
            for name in (model.name for model in models)
        }
        best = max(ranks, key=lambda name: fmean(ranks[name]))
        finding = f"highest mean Spearman of {len(scores)} tables: {fmean(ranks[best]):.2f} by {best}"
        conclude(
            finding, sure="nothing was fitted", then="dse accuracy tuning DIR says what a tuner gains by it"
        )


@app.command(
    epilog="Examples: [bold]dse accuracy tuning DIR --only A100 --seeds 1[/bold]; "
    "[bold]dse accuracy tuning DIR --page docs/accuracy.md[/bold]"
)
def tuning(
    folder: FolderArgument,
    model: inputs.ModelOption = DEFAULT,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Runs that the means are over.")] = 10,
    budget: Annotated[
        int, typer.Option(metavar="N", min=5, help="Evaluations of `dse tune`, at most.")
    ] = 100,
    compiled: Annotated[
        int, typer.Option("--compile", metavar="N", help="Of a source: compile this many configurations.")
    ] = 96,
    only: Annotated[str, typer.Option(metavar="TEXT", help="Spaces or GPUs whose name holds this.")] = "",
    by_source: inputs.SourceOption = False,
    parts: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=MOST_PARTS, help="Score N random halves of each table instead."),
    ] = 0,
    order: Annotated[
        str, typer.Option(metavar="ORDER", help="Of predictions: predicted, reversed, or none: without them.")
    ] = "predicted",
    json: JsonOption = False,
    page: PageOption = None,
) -> None:
    """Tune measured spaces with few evaluations, and tell how close to the optimum that comes.

    A kernel is read from the source that a T1.json beside the tables names, else from the description that
    lists the folder's name, or with --source from the source of that; else a space is tuned from its
    parameters alone (`from`: source, described or none). Fractions are of the optimum: random choice of 20,
    exactly; the best of the model's first 20; `dse tune` after 5 to 100 evaluations. Spearman's rank
    correlation is of the model, and of the model refitted to 5, 10 and 20 measurements taken at random, over
    the others. Means over --seeds.

    --parts 10 asks how much of that is the luck of one optimum; --order reversed what a model costs that is
    wrong, beside --order none.
    """
    _one_form(json, page)
    closed_form = inputs.closed_form(model)
    from dse.accuracy.known import PredictionSettings
    from dse.accuracy.tuning import TuningSettings, evaluate, table, with_mean
    from dse.report.show import progress

    plan = TuningSettings(PredictionSettings(closed_form, compiled, by_source), seeds, budget, parts, order)
    rows = list(evaluate(folder, plan, only, _note, progress))
    if json:
        _print_json({"rows": rows})
    elif page:
        _write(page, "tuning from source" if by_source else "tuning", table(rows))
    else:
        _show(with_mean(rows), "Tuning")
        from dse.report.conclusion import conclude

        last = [name for name in rows[0] if name.startswith("tune_")][-1]
        lowest = min(rows, key=lambda row: row[last])
        mean, count = fmean(row[last] for row in rows), last.removeprefix("tune_")
        finding = f"after {count} measurements {mean:.3f} of the optimum, mean of {len(rows)} tables; "
        finding += f"lowest {lowest[last]:.3f}, {lowest['space']} on {lowest['gpu']}"
        conclude(finding, sure=f"mean of {seeds} seeds")


@app.command(
    epilog="Examples: [bold]dse accuracy own --model phase[/bold]; "
    "[bold]dse accuracy own --page docs/accuracy.md[/bold]"
)
def own(model: inputs.ModelsOption = None, json: JsonOption = False, page: PageOption = None) -> None:
    """Score models on our own measurements: what `dse measure store` put beside the kernels.

    Each model is scored as it comes, and with the GPU's parameters fitted to 20 random measurements of a
    space, on its others. Where occupancy was swept, errors are of throughput, as in Lemeire et al., Tables 10
    to 12. All models take some minutes.
    """
    _one_form(json, page, (OWN,))
    models = inputs.models(model, tuple(MODELS))
    from dse.accuracy import curves
    from dse.accuracy.own import markdown, score
    from dse.report.show import progress

    scores = score(models, _note, progress)
    if json:
        _print_json(scores.as_dict())
    elif page:
        _write(page, OWN, markdown(scores))
    else:
        for space in scores.spaces:
            rows = [{name: row[name] for name in row if name not in COUNTS} for row in space.rows]
            _show(rows, f"{space.kernel} on {space.gpu}: {space.summary}")
        for gpu, swept in scores.curves.items():
            _show(curves.rows(swept), f"Over occupancy on {gpu}: MAPE / MAPE_shape of throughput [%]")


@app.command(
    epilog="Examples: [bold]dse accuracy teg[/bold]; [bold]dse accuracy teg --page docs/accuracy.md[/bold]; "
    "[bold]dse accuracy teg --choices --page docs/teg.md[/bold]"
)
def teg(
    choices: Annotated[
        bool, typer.Option("--choices", help="TEG's errors, had what was chosen been chosen otherwise.")
    ] = False,
    json: JsonOption = False,
    page: PageOption = None,
) -> None:
    """Score all models on the TEG paper's Tables 2 to 5, which come with the package: mean errors in percent.

    TEG gets the traces of the kernels, reconstructed as docs/teg.md says, the other models descriptions with
    the traces' counts. JSON has every cell.
    """
    _one_form(json, page, ("TEG choices" if choices else "TEG tables",))
    from dse.accuracy import teg as tables
    from dse.accuracy import teg_choices
    from dse.report.show import progress

    if choices:
        rows = shown = teg_choices.errors()
        section, title, markdown = "TEG choices", "Mean errors of TEG [%]", teg_choices.page
    else:
        rows = tables.cells(progress)
        shown = tables.means(rows)
        section, title, markdown = "TEG tables", "Mean errors of cycles [%]", tables.page
    if json:
        _print_json({"rows": rows})
    elif page:
        _write(page, section, markdown(rows))
    else:
        _show(shown, title)


@app.command(
    epilog="Example: [bold]dse accuracy estimates convolution --gpu a4000 --measured A4000.csv.gz "
    "--compile 48[/bold]"
)
def estimates(
    kernel: inputs.KernelArgument,
    gpu: inputs.GpuOption,
    measured: Annotated[Path, typer.Option(metavar="FILE", help="Measured times of the space.")],
    compiled: Annotated[
        int, typer.Option("--compile", metavar="N", min=2, help="Configurations that the others come from.")
    ] = 48,
    sample: Annotated[int, typer.Option(metavar="N", min=1, help="Configurations, at random.")] = SAMPLE,
    draws: Annotated[int, typer.Option(metavar="N", min=0, help="Random choices of as many.")] = 3,
    seed: Annotated[int, typer.Option(min=0, max=inputs.MOST_SEED, help="Of the sample.")] = 1,
    plain: Annotated[
        bool, typer.Option("--plain", help="Without the names that the description has of sizes.")
    ] = False,
    changed: inputs.SetOption = None,
    json: JsonOption = False,
) -> None:
    """Tell what is lost if few configurations of a source are compiled and the others estimated from them.

    The rank correlation of the default model with measured times if all of a sample are compiled, if a chosen
    few are, and if as many at random are; then how far single numbers are off, relative, and by how much
    those that were compiled are if they are left out.
    """
    description, problem = inputs.description(kernel, inputs.settings(changed))
    [gpu_file] = inputs.gpus([gpu])
    from dse.accuracy.estimates import check, rows
    from dse.report.show import progress

    checked = check(measured, description, gpu_file, problem, compiled, sample, draws, seed, plain, progress)
    if json:
        _print_json(checked)
        return
    scores, few = checked["spearman"], checked["compiled"]
    ranks = {"all compiled": scores["all"], f"{few} chosen": scores["chosen"]}
    ranks |= {f"{few} at random, {draw}": value for draw, value in enumerate(scores["random"], 1)}
    count, failures = checked["sample"], checked["failures"]
    title = f"{description.name} on {gpu_file.name}: {count} configurations, {failures} fail"
    _show([{"compiled": name, "spearman": value} for name, value in ranks.items()], title)
    _show(rows(checked), f"Numbers of the others, relative ({few} compiled)")
    milliseconds = 1e3 * checked["cpu_seconds_per_configuration"]
    print(f"CPU of choosing and estimating: {milliseconds:.1f} ms a configuration")
    print(f"bank conflicts exact: {', '.join(checked['exact_patterns']) or 'none'}")


def _one_form(json: bool, page: Path | None, sections: Sequence[str] = ()) -> None:
    """Check, before the work, that JSON or a page is asked for, and that the page has these sections."""
    if json and page:
        raise DseError("--page: found together with --json, expected one of them")
    if page and str(page) != "-":
        for section in sections:
            around(page, section)


def _print_json(value: dict[str, Any]) -> None:
    from dse.report.numbers import json_text

    print(json_text(value))


def _show(rows: Sequence[dict[str, Any]], title: str) -> None:
    present(rows, title=title, json=False, csv=False, out=None)


def _write(page: Path, section: str, markdown: str) -> None:
    """Fill the section of a page, or print the Markdown for `-`."""
    if str(page) == "-":
        print(markdown)
    else:
        fill(page, section, markdown)


def _note(message: str) -> None:
    typer.echo(f"dse: warning: {one_line(message)}", err=True)
