"""Run the code of pages from top to bottom, in the current folder: `run_page.py docs/tutorial.md ...`.

A block with `title="NAME"` is written to that file. Other `python` blocks run in sequence with shared names.
In `sh` blocks each line is a command. Blocks of other languages are ignored. It stops at the first failure.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(page: Path) -> int:
    """Run a page; return the number of blocks that ran or were written."""
    names: dict[str, Any] = {"__name__": "page"}
    count = 0
    for language, attributes, code in BLOCK.findall(page.read_text(encoding="utf-8")):
        title = re.search(r'title="([^"]+)"', attributes)
        if title:
            path = Path(title[1])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(code, encoding="utf-8")
        elif language == "python":
            exec(compile(code, f"{page.name}, block {count}", "exec"), names)
        elif language == "sh":
            for line in code.splitlines():
                run_command(line)
        else:
            continue
        count += 1
    return count


def run_command(line: str) -> None:
    """Run one command; `dse` runs in this process, which has its imports loaded."""
    words = shlex.split(line, comments=True)
    if not words:
        return
    print(f"$ {line}", flush=True)
    if words[0] != "dse":
        subprocess.run(words, check=True)
        return
    from dse.cli.main import run

    try:
        run(words[1:])
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"{line}: ended with {end.code}") from None


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(f"{name}: {run_page(Path(name))} blocks")
