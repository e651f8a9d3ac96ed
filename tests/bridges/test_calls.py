"""Calls of products, from lists and from the log of PyTorch's autotuning."""

from pathlib import Path

import pytest

from dse.bridges.calls import Call, Operand, read
from dse.errors import DseError, InputWarning
from dse.models.matrix.problem import Product

LOG = """some line before
AUTOTUNE addmm(16x2048, 16x4096, 4096x2048)
strides: [0, 1], [4096, 1], [1, 4096]
dtypes: torch.float16, torch.float16, torch.float16
  triton_mm_46 0.0092 ms 100.0% ACC_TYPE='tl.float32', BLOCK_K=128
SingleProcess AUTOTUNE benchmarking takes 0.1 seconds and 0.2 seconds precompiling for 20 choices
AUTOTUNE scaled_mm(64x256, 256x64, , )
strides: [256, 1], [1, 256], [], []
dtypes: torch.float8_e4m3fn, torch.float8_e4m3fn, torch.float32, torch.float32
AUTOTUNE convolution(8x3x224x224, 64x3x7x7)
strides: [150528, 50176, 224, 1], [147, 49, 7, 1]
dtypes: torch.float16, torch.float16
AUTOTUNE mm(8x16, 16x8)
strides: [16, 1], [8, 1]
dtypes: torch.complex64, torch.complex64
AUTOTUNE mm(s0x16, 16x8)
strides: [], [8, 1]
dtypes: torch.float16, torch.float16
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "shapes.csv"
    path.write_text(text)
    return path


def test_a_list(tmp_path):
    once = "8,16,32,,,,column\n"
    lines = f"M,N,K,batch,dtype,op,b_layout\n{once}8,16,32,4,fp16,,\n8,16,32,1,,addmm,\n{once}"
    mm, bmm, addmm = read(written(tmp_path, lines))
    bf16, fp16 = "bfloat16", "float16"
    assert mm == Call("mm", (Operand(bf16, (8, 32), (32, 1)), Operand(bf16, (32, 16), (1, 32))))
    batch = (Operand(fp16, (4, 8, 32), (256, 32, 1)), Operand(fp16, (4, 32, 16), (512, 16, 1)))
    assert bmm == Call("bmm", batch)
    assert addmm.inputs[0] == Operand(bf16, (8, 16), (0, 1))
    rows = ("row", "row")
    assert mm.product == Product(8, 16, 32)
    assert addmm.product == Product(8, 16, 32, layouts=rows)
    batched = Product(4 * 8, 16, 32, experts=4, operands="fp16", routing="batch", layouts=rows)
    assert bmm.product == batched
    assert bmm.sizes == {"M": 8, "N": 16, "K": 32, "batch": 4, "dtype": "fp16", "op": "bmm",
                         "a_layout": "row", "b_layout": "row"}  # fmt: skip


def test_a_log(tmp_path):
    with pytest.warns(InputWarning, match=r"AUTOTUNE: found 3 of 5 calls .*: left out"):
        addmm, scaled = read(written(tmp_path, LOG))
    assert (addmm.op, addmm.product) == ("addmm", Product(16, 2048, 4096, operands="fp16"))
    assert [item.strides for item in addmm.inputs] == [(0, 1), (4096, 1), (1, 4096)]
    assert (scaled.op, scaled.product) == ("scaled_mm", Product(64, 64, 256, operands="fp8_w8a8"))
    assert scaled.inputs[2] == Operand("float32", (), ())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("M,N\n1,2\n", "columns: found no K, expected M, N and K"),
        ("M,N,K,tokens\n1,2,3,4\n", "columns: found tokens, expected one of M, N, K, batch"),
        ("M,N,K\n1,2,3\n1,2.5,3\n", "N, row 2: found 2.5, expected a whole number of at least 1"),
        ("M,N,K\n1,,3\n", "N, row 1: found nothing, expected a whole number of at least 1"),
        ("M,N,K,batch\n1,2,3,0\n", "batch, row 1: found 0, expected a whole number of at least 1"),
        ("M,N,K,dtype\n1,2,3,fp4\n", "dtype, row 1: found 'fp4', expected 'bf16', 'fp16'"),
        ("M,N,K,batch,op\n1,2,3,4,mm\n", "op, row 1: found mm with a batch, expected bmm or baddbmm"),
        ("AUTOTUNE nothing\n", "AUTOTUNE: found no product of matrices, expected at least one"),
    ],
)
def test_mistakes(tmp_path, text, line):
    with pytest.raises(DseError, match=rf"shapes.csv: {line}"):
        read(written(tmp_path, text))
