"""Tables of measured times as they are read, and predictions of their rows."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from matrix_fits.fit import fit
from matrix_fits.records import columns
from matrix_fits.timed import candidates, layers, libraries

from dse.errors import DseError
from dse.explore.matrix.devices import gpu_file
from dse.explore.matrix.rank import predict
from dse.models.matrix.case import BETWEEN_EVENTS
from dse.models.matrix.configuration import PARAMETERS
from dse.models.matrix.constants import Constants, default
from dse.models.matrix.layer import Rest
from dse.models.matrix.problem import Product

HEADER = (
    "m,n,k,a_dtype,b_dtype,a_layout,b_layout,tf32,BLOCK_M,BLOCK_N,BLOCK_K,num_stages,num_warps,repeats,"
    "time_ms,library_ms\n"
)
ROWS = """1024,512,2048,float16,float16,row,column,,64,64,32,3,4,3,0.05,0.04
1024,512,2048,float16,float16,row,column,,128,128,128,5,8,3,,0.04
1000,100,2048,float32,float32,column:1008,row,True,64,64,32,3,4,3,0.1,
16,512,2048,bfloat16,uint8,row,column,,16,32,128,2,2,3,0.02,0.03
"""
LAYERS = f"""gpu,operands,tokens,experts,topk,hidden,intermediate,distribution,ms,{",".join(PARAMETERS)}
h100_sxm,bf16,64,8,2,4096,512,balanced,0.1,16,32,64,1,4,3
h100_sxm,bf16,64,8,2,4096,512,power_law_1.2,0.1,16,32,64,1,4,3
a100_sxm,fp8_w8a8,64,8,2,4096,512,balanced,0.1,16,32,64,1,16,3
"""


LIBRARIES = """gfx,cu_num,kind,M,N,K,libtype,splitK,us,tile
gfx942,304,a8w8_blockscale,4096,4096,7168,ck,0,400,256x128x128x128
gfx942,80,a8w8_bpreshuffle,4096,4096,7168,ck,2,800,256x128x128x128
gfx942,80,bf16,4096,4096,7168,torch,0,2000,
gfx942,80,bf16,4096,64,64,opus,0,20,256x128x128x64
"""


def written(folder: Path, text: str, name: str = "A100_some.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_candidates(tmp_path: Path):
    table = candidates(written(tmp_path, HEADER + ROWS))
    assert table.gpus == ("A100_some",)
    assert table.problem.tolist() == [table.problem[0]] * 2 + table.problem[2:].tolist()
    [half], [single], [mixed] = (table.problems[place] for place in table.problem[[0, 2, 3]])
    assert (half.operands, half.layouts, half.constant) == ("fp16", ("row", "column"), True)
    assert (single.operands, single.strides, single.copy_bytes) == ("tf32", (1008, None), (16, 16))
    assert (mixed.operands, mixed.tokens) == ("int8_w8a16", 16)
    assert table.configurations[0].tolist() == [64, 64, 32, 8, 4, 3]
    np.testing.assert_allclose(table.seconds, [5e-5, np.nan, 1e-4, 2e-5])
    np.testing.assert_allclose(table.library[table.problem], [4e-5, 4e-5, np.nan, 3e-5])
    np.testing.assert_array_equal(table.possible(), [True, False, True, True])


def test_rows_are_predicted_as_a_grid_of_them_is(tmp_path: Path):
    table = candidates(written(tmp_path, HEADER + ROWS))
    predicted = table.predict(default())
    for row, (problem, configuration) in enumerate(zip(table.problem, table.configurations, strict=True)):
        [[[alone]]] = predict(
            [gpu_file("A100")], table.problems[problem], configuration[None], default(), BETWEEN_EVENTS
        )
        np.testing.assert_allclose(predicted[row], alone, rtol=1e-5)


@pytest.mark.slow
def test_layers_are_two_products_and_the_rest(tmp_path: Path):
    table = layers(written(tmp_path, LAYERS))
    predicted = table.predict(default())
    routings = [table.problems[place][0].routing for place in table.problem]
    assert routings == ["even", "skewed", "even"]
    for row in range(len(table)):
        file = gpu_file(table.gpus[table.gpu[row]])
        up, down = table.problems[table.problem[row]]
        times = predict([file], [up, down], table.configurations[row][None], default())
        assert predicted[row] > times.sum()
    launches = Rest.of(list(table.problems)).launches
    assert sorted(set(launches.tolist())) == [8.0, 10.0]  # eight bits: activations are converted, too


@pytest.mark.slow
def test_tiles_of_amds_libraries(tmp_path: Path):
    """Rows without a tile and short ones are left out; sums that are split are products side by side."""
    table = libraries(written(tmp_path, LIBRARIES))
    assert [table.gpus[place] for place in table.gpu] == ["MI300X", "MI308X"]
    assert table.configurations.tolist() == [[128, 128, 128, 8, 4, 2, 1]] * 2
    (whole,), (split,) = (table.problems[place] for place in table.problem)
    assert (whole.operands, whole.experts, whole.shuffled) == ("fp8_w8a8_block", 1, False)
    assert (split.operands, split.experts, split.depth, split.shuffled) == ("fp8_w8a8", 4, 1792, True)
    sizes = [float(gpu_file(name).gpu.sm_count) for name in table.gpus]
    assert sizes == [304, 80]
    assert np.isfinite(table.predict(default())).all()


@pytest.mark.slow
def test_times_are_fitted(tmp_path: Path):
    sizes = (256, 1024, 4096)
    text = "".join(
        f"{m},{n},4096,float16,float16,row,column,,64,64,32,3,4,3,1,\n" for m in sizes for n in sizes
    )
    table = candidates(written(tmp_path, HEADER + text))
    slower = 1.3 * table.predict(default())
    messages = table.where(np.arange(len(table)))
    messages.seconds[:] = slower
    fitted = Constants.at(jnp.asarray(fit([], timed=[messages], steps=15), jnp.float32))
    error = np.abs(messages.predict(fitted) / slower - 1.0)
    assert error.mean() < 0.12  # 0.23 before


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ("0,1,1,float16,float16,row,row,,16,16,16,2,2,3,1,1", "m: found '0', expected a whole number"),
        ("1,1,1,float16,float16,diagonal,row,,16,16,16,2,2,3,1,1", "a_layout: found 'diagonal'"),
        ("1,1,1,float64,float64,row,row,,16,16,16,2,2,3,1,1", "a_dtype, b_dtype: found 'float64', 'float64'"),
        ("1,1,1,float16,float16,row,row,,16,16,16,2,2,3,-1,1", "time_ms: found '-1', expected a number"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, row: str, line: str):
    with pytest.raises(DseError, match=f"A100_some.csv: line 2: {line}"):
        candidates(written(tmp_path, HEADER + row + "\n"))


def test_no_rows_and_no_law(tmp_path: Path):
    with pytest.raises(DseError, match="found no rows"):
        candidates(written(tmp_path, HEADER))
    with pytest.raises(DseError, match=r"distribution: found 'power_law_x', expected one as power_law_1\.2"):
        layers(written(tmp_path, LAYERS.replace("power_law_1.2", "power_law_x")))
    assert columns(written(tmp_path, HEADER))[:3] == ("m", "n", "k")


def test_what_a_thread_copies_at_a_time():
    """16 bytes where alignment lets it; of an argument Triton knows only whether 16 divides it."""

    def bytes_of(depth: int, **other) -> tuple[int, int]:
        return Product(64, 4096, depth, **other).copy_bytes

    assert bytes_of(4096) == (16, 16)
    assert bytes_of(84) == (2, 2)
    assert bytes_of(84, constant=True) == (8, 8)
    assert bytes_of(84, constant=True, layouts=("row", "row")) == (8, 16)
    assert bytes_of(84, operands="fp8_w8a8") == (1, 1)
    assert bytes_of(4096, strides=(4097, None)) == (2, 16)
    assert bytes_of(1, layouts=("row", "row")) == (16, 16)  # of a single column the rows are next in memory
    assert bytes_of(1, layouts=("row", "row"), strides=(17, None)) == (2, 16)
