"""Pages that `mkdocs build` adds to docs/: the references of commands and of Python names.

A hook of MkDocs (mkdocs.yml). Links out of docs/, to files of the repository, become plain text on the site.
"""

import inspect
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
WRITTEN = ("cli.md", "api.md")


def on_config(config: Any) -> Any:
    """Remove missing pages from the navigation."""
    config.nav = _existing(config.nav)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages generated from the code."""
    from mkdocs.structure.files import File

    for name, text in zip(WRITTEN, (commands(), names()), strict=True):
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace links out of docs/ by plain text, and draw layers without Mermaid's script."""
    markdown = re.sub(r"^```mermaid\n(.*?)^```$", _drawn, markdown, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\[([^\]]*)\]\(\.\./[^)]*\)", r"\1", markdown)


def _drawn(flowchart: re.Match[str]) -> str:
    """Draw a flowchart of layers as rows of boxes; Mermaid would have to be fetched."""
    layers = [re.findall(r"\[([\w.]+)\]", layer) for layer in re.split(r"\bsubgraph\b.*", flowchart[1])[1:]]
    box = '<code style="border:1px solid;padding:.1em .6em;margin:.1em">'
    rows = ("".join(f"{box}{room}</code>" for room in layer) for layer in layers)
    return '<p style="text-align:center;line-height:2">' + "<br>↓<br>".join(rows) + "</p>"


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Start each part of a docstring, such as **Raises:**, on a new line."""
    if page.file.src_uri != "api.md":
        return html
    return re.sub(r"\s<strong>(Shapes|Units|Edges|Raises|Source):", r"<br><strong>\1:", html)


def commands() -> str:
    """Write docs/cli.md: each command with its arguments and options."""
    from dse.cli.commands import COMMANDS, command
    from dse.cli.main import main

    lines = ["# Command line", "", f"{_flowing(main.__doc__)}", ""]
    for name in sorted(COMMANDS):
        lines += _command(f"dse {name.replace('_', '-')}", command(name), 2)
    return "\n".join(lines)


def names() -> str:
    """Write docs/api.md: the public names of `import dse`."""
    import dse

    lines = ["# Python names", "", "What `import dse` offers; [examples](python.md).", ""]
    for name in dse.__all__:
        if inspect.isfunction(getattr(dse, name)):
            module = inspect.getmodule(getattr(dse, name))
            assert module is not None
            lines += [f"::: {module.__name__}.{name}", f"    options: {{heading: dse.{name}}}", ""]
    lines += ["## dse.models", "", "The registry of models: `dse.models.MODELS`, `dse.models.get(name)`.", ""]
    for module, name in (
        ("dse.data.tables", "Result"),
        ("dse.evaluate.predict", "Predicted"),
        ("dse.evaluate.rank", "Ranking"),
        ("dse.hardware.gpus.tree", "GpuFile"),
        ("dse.errors", "DseError"),
    ):
        lines += [f"::: {module}.{name}", ""]
    return "\n".join(lines)


def _command(path: str, command: Any, level: int) -> list[str]:
    lines = [f"{'#' * level} {path}", "", _flowing(command.help), ""]
    if getattr(command, "commands", None):
        for name, inner in sorted(command.commands.items()):
            lines += _command(f"{path} {name}", inner, level + 1)
        if not getattr(command, "invoke_without_command", False):
            return lines
    rows = [row for parameter in command.params if (row := _parameter(parameter))]
    if rows:
        lines += ["| | value | meaning | default |", "| --- | --- | --- | --- |", *rows, ""]
    if command.epilog:
        examples = re.findall(r"\[bold\](.*?)\[/bold\]", command.epilog, re.DOTALL)
        lines += ["```console", *(f"$ {_flowing(example)}" for example in examples), "```", ""]
    return lines


def _parameter(parameter: Any) -> str:
    if getattr(parameter, "hidden", False) or parameter.name == "help":
        return ""
    names = ", ".join(f"`{name}`" for name in parameter.opts if name.startswith("-"))
    kind = parameter.bare_type()
    takes = "" if getattr(parameter, "is_flag", False) else parameter.metavar or kind
    default = parameter.default
    shown = "required" if parameter.required else default if isinstance(default, str | int | float) else ""
    shown = "" if shown is False or shown == () else str(shown)
    cells = (names or f"`{parameter.metavar}`", takes if names else "", parameter.help or "", shown)
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    return _flowing(text).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _flowing(text: str | None) -> str:
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n"))


def _existing(entry: Any) -> Any:
    if isinstance(entry, list):
        return [page for inner in entry if (page := _existing(inner))]
    if isinstance(entry, dict):
        return {title: page for title, inner in entry.items() if (page := _existing(inner))} or None
    return entry if entry in WRITTEN or (DOCS / entry).is_file() else None
