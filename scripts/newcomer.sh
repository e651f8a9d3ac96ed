#!/usr/bin/env bash
# A newcomer's path: a fresh environment, then the complete tutorial. Fails if anything fails, or if the tutorial takes
# longer than three minutes (LIMIT_SECONDS) after installation.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip --disable-pip-version-check -qq install "$root[fit]"

export PATH="$work/venv/bin:$PATH" DSE_CACHE="$work/cache"
unset PYTHONPATH
cd "$work"
begun=$SECONDS
dse doctor
python "$root/scripts/run_page.py" "$root/docs/tutorial.md"
took=$((SECONDS - begun))
echo "The tutorial took $took s after installation."
((took < ${LIMIT_SECONDS:-180})) || { echo "expected less than ${LIMIT_SECONDS:-180} s"; exit 1; }
