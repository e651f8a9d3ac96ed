"""`dse accuracy tuning` with the flags of this script: `evaluate_spaces.py DIR [--json] [-o PAGE]`."""

import sys

from dse.cli.main import run

arguments = ["--page" if text in ("-o", "--out") else text for text in sys.argv[1:]]
if __name__ == "__main__":  # processes that read a kernel's source import this file again
    run(["accuracy", "tuning", *arguments, *([] if {"--page", "--json"} & {*arguments} else ["--page", "-"])])
