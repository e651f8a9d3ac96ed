import pytest

from dse.source.amd.execute.memory_names import memory_access


@pytest.mark.parametrize(
    ("name", "space", "kind", "size", "elements"),
    [
        ("global_load_dwordx4", "vmem", "load", 16, 1),
        ("global_store_b64", "vmem", "store", 8, 1),
        ("flat_load_ubyte", "flat", "load", 1, 1),
        ("scratch_buffer_store_dword", "scratch", "store", 4, 1),
        ("buffer_load_ushort", "vmem", "load", 2, 1),
        ("buffer_load_lds_dwordx4", "vmem", "load", 16, 1),
        ("ds_read_b64_tr_b16", "lds", "load", 8, 1),
        ("global_load_tr_b128", "vmem", "load", 16, 1),
        ("scratch_load_b96", "scratch", "load", 12, 1),
        ("ds_read2st64_b32", "lds", "load", 4, 2),
        ("ds_store_2addr_b64", "lds", "store", 8, 2),
        ("ds_add_rtn_u32", "lds", "atomic", 4, 1),
        ("global_atomic_add_u32", "vmem", "atomic", 4, 1),
        ("s_load_dwordx16", "smem", "load", 64, 1),
        ("global_load_short_d16_hi", "vmem", "load", 2, 1),
    ],
)
def test_names(name: str, space: str, kind: str, size: int, elements: int):
    accessed = memory_access(name)
    assert accessed is not None
    assert (accessed.space, accessed.kind, accessed.bytes, accessed.elements) == (space, kind, size, elements)
