"""Recorded tuning results as they are read: cases, kinds of operands, devices by their names."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from matrix_fits.records import UNKNOWN_DEPTH, Recorded, near_best, recorded, run_by_vllm

from dse.errors import DseError
from dse.models.matrix.configuration import AMD_PARAMETERS, PARAMETERS, space
from dse.models.matrix.problem import Product

NAMES = ",".join(PARAMETERS)
NEAR = f"""gpu,weight_type,M,E,topk,H,N,{NAMES},avg_duration,sample_count
A100,w13,16,8,2,1024,512,16,64,64,1,4,3,7.5,3
A100,w13,16,8,2,1024,512,16,64,64,16,4,3,7.45,3
A100,w2,16,8,2,1024,512,16,32,64,1,4,3,5,3
"""
BEST = f"""vendor,device,kernel,part,dtype,block_shape,E,N,K,topk,M,{NAMES},space,in_space
NVIDIA,NVIDIA_H200,moe,,fp8_w8a8,128x128,256,512,7168,8,64,16,128,128,1,4,3,NVIDIA-moe-block128x128,1
NVIDIA,NVIDIA_H200,moe,down,bf16/fp16,,8,512,,,64,16,128,128,1,4,3,NVIDIA-moe,1
NVIDIA,NVIDIA_H200,w8a8,,fp8_w8a8,128x128,,512,7168,,64,16,128,128,1,4,3,NVIDIA-w8a8,1
NVIDIA,NVIDIA_H200,moe,,bf16/fp16,,8,512,,,64,16,128,512,1,4,3,NVIDIA-moe,0
AMD,MI300X,moe,,bf16/fp16,,8,512,,,64,16,128,64,1,4,2,AMD-moe,1
"""


def written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_bytes(gzip.compress(text.encode()))
    return folder


def test_near_best_sets(tmp_path: Path):
    first, second = near_best(written(tmp_path, "near_best.csv.gz", NEAR))
    assert first.configurations == ((16, 64, 64, 1, 4, 3), (16, 64, 64, 16, 4, 3))
    assert first.best == pytest.approx(7.45e-6)
    assert (first.product.columns, first.product.depth, first.product.routing) == (1024, 1024, "even")
    assert (second.product.columns, second.product.depth) == (1024, 512)


def test_recorded_bests(tmp_path: Path):
    scaled, down, dense = recorded(written(tmp_path, "recorded_best.csv.gz", BEST))
    assert [item.operands for item in scaled.products] == ["fp8_w8a8_block"] * 2
    assert scaled.block == (128, 128)
    assert scaled.depth_known
    [second] = down.products
    assert (second.columns, second.depth, second.operands) == (UNKNOWN_DEPTH, 512, "bf16")
    assert not down.depth_known
    [product] = dense.products
    assert (product.tokens, product.columns, product.depth, product.experts) == (64, 512, 7168, 1)
    assert dense.block == ()
    options = f",{','.join(AMD_PARAMETERS)}"
    header, *rows = BEST.replace(",space", f"{options},space").splitlines()
    arguments = "\n".join([header, rows[-1].replace(",AMD-moe", ",0,16,2,AMD-moe")]) + "\n"
    [single] = recorded(written(tmp_path, "recorded_best.csv.gz", arguments), "AMD")
    assert single.configuration == (16, 128, 64, 1, 4, 2, 0, 16, 2)
    assert single.tried == "moe_amd"
    arguments = arguments.replace(",AMD-moe", ",AMD-moe-sglang")
    [single] = recorded(written(tmp_path, "recorded_best.csv.gz", arguments), "AMD")
    assert single.tried == "moe_amd_sglang"


def test_what_a_tuner_left_out_for_its_sizes_is_not_ranked_but_the_best_is():
    table, few = space("moe_amd_fp8"), Product(4, 512, 1024, experts=8, topk=2, operands="fp8_w8a8")
    single = Recorded("MI300X", "moe", True, (few,), tuple(table[-1].tolist()), (), "moe_amd_fp8")
    run = table[single.runs(table)]
    assert sorted(set(run[:-1, 0].tolist())) == [16]  # 8 rows: none of twice as many, but the smallest
    assert (run[:-1, 3] == 1).all()
    np.testing.assert_array_equal(run[-1], table[-1])


def test_a_folder_without_them_has_none(tmp_path: Path):
    assert near_best(tmp_path) == recorded(tmp_path) == []
    (tmp_path / "near_best.csv.gz").write_bytes(b"\x1f\x8bno archive")
    with pytest.raises(DseError, match=r"near_best.csv.gz: cannot read"):
        near_best(tmp_path)


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (NEAR, ",16,8,2,1024", ",16,8,2," + "9" * 5000, "line 2: H: found '9+', expected a whole number"),
        (NEAR, ",7.5,", ",nan,", "line 2: avg_duration: found 'nan', expected a number above 0"),
        (NEAR, ",7.5,", ",,", "line 2: avg_duration: found '', expected"),
        (NEAR, "avg_duration", "duration", "line 2: avg_duration: missing, expected a column"),
        (NEAR, ",1024,512,", ",1024,,", "line 2: N: found '', expected a whole number"),
        (NEAR, ",16,8,2", ",-1,8,2", "line 2: M: found '-1', expected a whole number above 0"),
        (NEAR, "7.45", "-1", "line 3: avg_duration: found '-1'"),
        (NEAR, "w2,16", "w2,x", "line 4: M: found 'x', expected a whole number"),
        (BEST, "128x128,256", "128x,256", "line 2: block_shape: found '128x', expected one as 128x128"),
        (BEST, "in_space", "inside", "line 2: in_space: missing, expected a column"),
        (BEST, "64,16,128,128", "64,16,,128", "line 2: BLOCK_SIZE_N: found"),
    ],
)
def test_an_invalid_row_is_reported_in_one_line(tmp_path: Path, text: str, old: str, new: str, message: str):
    name, read = ("near_best", near_best) if text is NEAR else ("recorded_best", recorded)
    folder = written(tmp_path, f"{name}.csv.gz", text.replace(old, new, 1))
    with pytest.raises(DseError, match=f"{name}.csv.gz: {message}"):
        read(folder)


def test_vllm_runs_large_tiles_of_large_products_and_what_divides_their_depth():
    table = space("moe_amd")
    run = table[run_by_vllm(table, [(4096, 2048, 192)], 2)]
    assert (run[:, :2] >= 64).all()
    assert (run[:, 2] == 64).all()  # of 16 to 256, from 64 on, what divides 192
    assert (run[:, 4] >= 4).all()
    # another product that they are timed with may keep more
    both = table[run_by_vllm(table, [(4096, 2048, 192), (4096, 1024, 256)], 2)]
    assert both[:, :2].min() == 16
    assert both[:, 2].max() == 256
    # 16 rows and columns are no tile of 32 x 32 instructions, nor more than 64 KiB of operands
    assert (both[:, 7] <= both[:, :2].min(1)).all()
    assert (2 * both[:, 2] * both[:, :2].sum(1)).max() == 2**16
