"""Arithmetic on pairs of values: how much of the fp32 pipe one instruction takes.

Source: peak TFLOPS without tensor cores, fp16 over fp32, in NVIDIA's white papers: A100 78 over 19.5
(bfloat16 39), H100 134 over 67, RTX 2080 Ti 26.9 over 13.4; RTX 3080, 4090 and 5090 the same for both.
"""

PAIRS = ("fp16", "fp32x2")  # pipes of pairs of halves, and of floats (Blackwell's packed arithmetic)
_HALVES = {80: 0.5, 86: 2.0, 87: 2.0, 89: 2.0, 120: 2.0, 121: 2.0}


def fp32_units(pipe: str, capability: int) -> float:
    """Return the units of fp32 work of one instruction on a pair, by compute capability (80 for 8.0)."""
    return 2.0 if pipe == "fp32x2" else _HALVES.get(capability, 1.0)
