"""The end of a script: a user's mistake is one line, and exit code 2."""

import sys
from collections.abc import Callable
from pathlib import Path

from dse.errors import DseError


def run_script(main: Callable[[], int | None]) -> None:
    """Run a script's `main`, and exit."""
    try:
        sys.exit(main())
    except DseError as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        sys.exit(2)
