"""Kernels written by hand, in the form in which clang prints them."""

from collections.abc import Callable

import pytest

from dse.source.amd.text import Listing, parse

Written = Callable[..., Listing]

_TEXT = """\t.amdgcn_target "amdgcn-amd-amdhsa--{target}"
\t.text
f:                                      ; @f
.Lfunc_begin0:
; %bb.0:
{code}
\ts_endpgm
\t.section\t.rodata,"a",@progbits
\t.amdhsa_kernel f
\t\t.amdhsa_group_segment_fixed_size {lds}
\t\t.amdhsa_user_sgpr_count {user}
{scratch}\t\t.amdhsa_user_sgpr_kernarg_segment_ptr 1
\t\t.amdhsa_system_sgpr_workgroup_id_x 1
\t.end_amdhsa_kernel
; Occupancy: 8
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .args:
{arguments}
    .group_segment_fixed_size: {lds}
    .kernarg_segment_size: {size}
    .max_flat_workgroup_size: 1024
    .name:           f
    .private_segment_fixed_size: {private}
    .sgpr_count:     16
    .sgpr_spill_count: 0
    .vgpr_count:     24
    .vgpr_spill_count: 3
    .wavefront_size: {lanes}
amdhsa.target:   amdgcn-amd-amdhsa--{target}
...
\t.end_amdgpu_metadata
"""


@pytest.fixture(scope="session")
def written() -> Written:
    """Read code whose arguments are so many pointers; s[0:1] point to these, s2 is the block's index."""

    def listing(code, target: str = "gfx90a", pointers=2, lanes=64, lds=0, scratch: bool = False) -> Listing:
        lines = code.splitlines() if isinstance(code, str) else code
        if scratch:  # its descriptor comes first
            lines = [
                "s_mov_b64 s[8:9], s[4:5]",
                *(line.replace("s[0:1], 0x", "s[8:9], 0x") for line in lines),
            ]
        items = [
            f"      - .address_space:  global\n        .offset:         {8 * number}\n"
            "        .size:           8\n        .value_kind:     global_buffer"
            for number in range(pointers)
        ]
        indented = [line if line.rstrip().endswith(":") else f"\t{line.strip()}" for line in lines]
        return parse(
            _TEXT.format(
                target=target,
                code="\n".join(indented),
                lds=lds,
                private=64 if scratch else 0,
                user=6 if scratch else 2,
                scratch="\t\t.amdhsa_user_sgpr_private_segment_buffer 1\n" if scratch else "",
                arguments="\n".join(items),
                size=8 * pointers,
                lanes=lanes,
            )
        )

    return listing
