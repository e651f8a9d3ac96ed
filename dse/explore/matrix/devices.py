"""GPU files of the devices that tables of recorded times name."""

import re
from contextlib import suppress
from functools import cache

from dse.errors import DseError
from dse.hardware.gpus import GpuFile, find, load

VENDORS = ("NVIDIA", "GEFORCE", "AMD")
RELATIVES = {"A800": "A100", "A10G": "A10", "GB300": "B300"}


@cache
def gpu_file(device: str) -> GpuFile:
    """Return the GPU file of a device's name in records: NVIDIA_A100-SXM4-80GB, H20, GeForce_RTX_4090, ...

    Words are dropped from the end until there is a file; a bare name is the SXM card if there is one.
    Variants without a file count as the most similar GPU: the A800 is an A100 with slower links, the A10G an
    A10 at a higher clock, the GB300 a B300. **Raises:** DseError.
    """
    own = [word for word in re.split("[_ -]+", device.strip().upper()) if word and word not in VENDORS]
    if "A100" in own and "40GB" in own:  # both form factors have the PCIe card's memory
        own = ["A100", "PCIE", "40GB"]
    for words in (own, [RELATIVES.get(word, word) for word in own]):
        for length in range(len(words), 0, -1):
            name = "-".join(words[:length])
            for text in (f"{name}-SXM", name):
                with suppress(DseError):
                    return load(find(text))
    raise DseError(f"gpu: found {device!r}, expected a device that gpus/ has a file of")
