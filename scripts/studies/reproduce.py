"""`dse reproduce` with the flags of this script: `reproduce.py [--json] [-o docs/reproduction.md]`."""

import argparse
import json
import sys

from dse.cli.main import run
from dse.reproduce.compare import compare, problems, summary

parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
parser.add_argument("--json", action="store_true", help="one JSON object")
parser.add_argument("-o", "--out", default="-", help="a page with the two markers, to be filled")
options = parser.parse_args()
if not options.json:
    run(["reproduce", "--page", options.out])
papers = compare()
print(json.dumps(summary(papers), ensure_ascii=False))
sys.exit("\n".join(problems(papers)) or 0)
