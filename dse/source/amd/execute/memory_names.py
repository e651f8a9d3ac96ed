"""Memory accesses from the names of instructions.

Source: AMD, "RDNA3" and "CDNA3 Instruction Set Architecture", the chapters on memory instructions.
"""

import re
from dataclasses import dataclass
from functools import cache

_BYTES = {
    "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16, "dwordx8": 32, "dwordx16": 64, "b32": 4, "b64": 8,
    "b96": 12, "b128": 16, "b256": 32, "b512": 64, "u8": 1, "i8": 1, "b8": 1, "u16": 2, "i16": 2, "b16": 2,
    "ubyte": 1, "sbyte": 1, "byte": 1, "ushort": 2, "sshort": 2, "short": 2, "u32": 4, "i32": 4, "f32": 4,
    "u64": 8, "i64": 8, "f64": 8, "x2": 8,
}  # fmt: skip
_SIGNED = ("i8", "sbyte", "i16", "sshort")
_SPACES = {"global": "vmem", "flat": "flat", "scratch": "scratch", "buffer": "vmem", "ds": "lds", "s": "smem"}
_NAME = re.compile(
    r"(global|flat|scratch_buffer|scratch|buffer|ds|s|s_buffer)_(load|store(?!xchg)|read|write)(.*)$"
)
_ATOMIC = re.compile(
    r"(global|flat|buffer|ds)_(?:atomic_)?"
    r"(add|sub|rsub|inc|dec|min|max|and|or|xor|swap|cmpswap|cmpst|cmpstore|wrxchg|storexchg|pk_add|"
    r"[us]min|[us]max|fmin|fmax|min_num|max_num)(_rtn)?_?(rtn_)?([a-z]*\d+|x2)?$"
)


@dataclass(frozen=True)
class MemoryAccess:
    """The access of a lane."""

    space: str  # "vmem", "flat", "scratch", "lds", "smem"
    kind: str  # "load", "store", "atomic"
    bytes: int  # of an element
    signed: bool = False
    half: str = ""  # "lo", "hi": half of a register that is loaded or stored
    elements: int = 1  # not adjacent
    stride: int = 1  # of their offsets, in elements
    operation: str = ""  # of an atomic
    returns: bool = False
    to_lds: bool = False  # a load from global memory to the LDS instead of a register
    transposed: bool = False  # a load across lanes, whose words are not followed

    @property
    def compares(self) -> bool:
        """Whether it is an atomic that stores a word only in place of another, which comes after it."""
        return self.operation.startswith("cmpswap")

    @property
    def words(self) -> int:
        """Registers of an element."""
        return max(1, self.bytes // 4)


@cache
def memory_access(name: str) -> MemoryAccess | None:
    """Return the access of an instruction; None if it is not known to access memory."""
    match = _NAME.match(name)
    if match:
        space, kind, rest = _SPACES[match[1].removesuffix("_buffer")], match[2], match[3].strip("_")
        kind = {"read": "load", "write": "store"}.get(kind, kind)
        elements = stride = 1
        for written, apart in (
            ("2addr_stride64_", 64), ("2st64_", 64), ("2addr_", 1), ("2_", 1),
        ):  # fmt: skip
            if space == "lds" and rest.startswith(written):
                elements, stride, rest = 2, apart, rest.removeprefix(written)
                break
        plain = re.sub(r"_tr_b\d+$|^tr\d*_", "", rest)
        transposed, rest = plain != rest, plain
        to_lds, rest = rest.startswith("lds_"), rest.removeprefix("lds_")
        half = ""
        if "d16" in rest:
            half = "hi" if "hi" in rest else "lo"
            rest = "_".join(part for part in rest.split("_") if part not in ("d16", "hi"))
        if rest not in _BYTES:
            return None
        if space == "smem" and kind == "store":
            return None
        signed = rest in _SIGNED
        return MemoryAccess(
            space, kind, _BYTES[rest], signed, half, elements, stride, to_lds=to_lds, transposed=transposed
        )
    match = _ATOMIC.match(name)
    if match is None:
        return None
    kind = match[5] or "u32"
    size = _BYTES.get(kind, 4)
    return MemoryAccess(
        _SPACES[match[1]],
        "atomic",
        size,
        signed=kind.startswith("i") or match[2].startswith("s"),
        operation=f"{match[2]} {kind[0]}",
        returns=bool(match[3] or match[4]),
    )
