"""`dse cache`: location and size of the files that commands cache; or delete them."""

from typing import Annotated

import typer

from dse.cli.options import Screen, command
from dse.core.files import cache_folder, files_within, is_folder


@command("Examples: [bold]dse cache[/bold]; [bold]dse cache --clear[/bold]")
def cache(
    *,
    clear: Annotated[bool, typer.Option("--clear", help="Delete all of it.")] = False,
    screen: Screen,
) -> None:
    """Show the location and size of cached code and counts, or clear them.

    Commands recreate what they need. DSE_CACHE names another folder.
    """
    from dse.report.conclusion import quantity

    folder = cache_folder()
    files = files_within(folder)
    parts: dict[str, list[int]] = {}
    for path in files:
        parts.setdefault(path.relative_to(folder).parts[0], []).append(path.stat().st_size)
    rows = [{"part": name, "files": len(sizes), "size_bytes": sum(sizes)} for name, sizes in parts.items()]
    if not clear:
        units = {"size_bytes": "B"}
        screen.present(sorted(rows, key=lambda row: row["part"]), title=str(folder), units=units)
    else:
        for path in files:
            path.unlink(missing_ok=True)
        for path in sorted(folder.rglob("*"), reverse=True):
            if is_folder(path) and not path.is_symlink():
                path.rmdir()
    size = quantity(sum(sum(sizes) for sizes in parts.values()), "B")
    finding = f"{'cleared' if clear else 'kept'} {len(files):,} files, {size}, in {folder}"
    screen.conclude(finding, then="" if clear else "dse cache --clear deletes them")
