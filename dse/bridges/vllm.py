"""A table of an experts' layer or a block-scaled product as the file that vLLM loads.

Names and keys: vLLM 0.33.0, `get_config_file_name` of fused_moe.py and `get_w8a8_block_fp8_configs` of
fp8_utils.py (Apache-2.0). Each number of tokens, as text, maps to the parameters; at run time the nearest
number is used. The device is torch.cuda.get_device_name().
"""

import json
import re
from glob import escape
from importlib.util import find_spec
from pathlib import Path

from dse.bridges.tables import BestConfigurations
from dse.core.files import read_json
from dse.errors import DseError

_TILE = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K")
UNNAMED = ("bf16", "fp16")  # kinds omitted from file names


def file_name(table: BestConfigurations) -> str:
    """The name under which vLLM looks the file up."""
    device = table.named_device
    family = table.subject.name == "moe" and "H200" in re.split(r"[\s/_]+", device)
    return named(table, "NVIDIA_H200" if family else device, "[{},{}]")  # one name for all of H200


def named(table: BestConfigurations, device: str, block: str) -> str:
    """Name the file by sizes, device, operands and block of scales."""
    kernel = table.subject
    sizes = ",".join(
        f"{name}={int(kernel.sizes[name])}" for name in (("E", "N") if kernel.name == "moe" else ("N", "K"))
    )
    kind = "" if kernel.dtype in UNNAMED else f",dtype={kernel.dtype}"
    shape = f",block_shape={block.format(*kernel.block)}" if kernel.block else ""
    device = re.sub(r"[\s/]+", "_", device)
    return f"{sizes},device_name={device}{kind}{shape}.json"


def text(table: BestConfigurations) -> str:
    """The content of the file."""
    rows = {str(row["M"]): {name: row[name] for name in table.parameters} for row in table.rows}
    return json.dumps(rows, indent=4) + "\n"


def shipped(table: BestConfigurations) -> str:
    """Compare with the file of this name that an installed vLLM ships; "" if there is none."""
    return compared("vllm", file_name(table), text(table))


def compared(package: str, name: str, content: str) -> str:
    """Count the batch sizes with the same tile as in a package's file of this name."""
    spec = find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        for path in sorted(Path(folder).rglob(escape(name))):
            try:
                theirs, ours = read_json(path), json.loads(content)
            except DseError:
                continue  # a broken file is ignored
            if not isinstance(theirs, dict):
                continue
            sizes = [size for size in ours if isinstance(theirs.get(size), dict)]
            same = [all(ours[size][name] == theirs[size].get(name) for name in _TILE) for size in sizes]
            return f"{package} ships a tuned one, with the same tile for {sum(same)} of {len(same)}: {path}"
    return ""
