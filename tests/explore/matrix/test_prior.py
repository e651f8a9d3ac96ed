"""What was fast elsewhere: shares, likeness of machines and cases, and no opinion of what is not alike."""

import numpy as np
from matrix_fits.package_files import counted, prior_text

from dse.explore.matrix.prior import Prior, log_rows, shipped
from dse.hardware import gpus
from dse.models.matrix.configuration import space
from dse.models.matrix.problem import Product

BEST = (16, 128, 128, 16, 4, 3)
OTHER = (128, 256, 64, 1, 8, 3)
TABLE = space("moe")
A100, L40, H100 = (gpus.load(name) for name in ("a100-sxm", "l40", "h100-sxm"))


def product(tokens: int, operands: str = "bf16") -> Product:
    return Product(tokens, 4096, 4096, experts=8, topk=2, operands=operands, routing="even")


def prior() -> Prior:
    return counted([("A100", product(16), [BEST]), ("A100", product(4096), [OTHER])])


def place(configuration: tuple[int, ...]) -> int:
    return TABLE.tolist().index(list(configuration))


def test_rows_of_an_expert_choose():
    few, many = prior().log_share(A100, [product(16), product(4096)], TABLE)
    assert np.argmax(few) == place(BEST)
    assert np.argmax(many) == place(OTHER)
    np.testing.assert_allclose(log_rows([product(1), product(64)]), [0, 4])  # of active ones
    assert 500 < sum(map(len, shipped().tiles.values())) < 5000
    [share] = shipped().log_share(A100, [product(16)], TABLE)
    assert TABLE[np.argmax(share)][0] == 16  # four rows an expert


def test_likeness_fades():
    def gain(file: gpus.GpuFile, operands: str = "bf16") -> float:
        [share] = prior().log_share(file, [product(16, operands)], TABLE)
        return share[place(BEST)] - np.median(share)

    assert gain(A100) > gain(H100) > 10 * gain(L40) >= 0  # stacked memory is not like GDDR
    assert gain(A100) > gain(A100, "fp8_w8a8") > 0
    assert np.ptp(Prior({}, {}).log_share(A100, [product(16)], TABLE)) == 0  # nothing is known


def test_text_comes_back():
    again = Prior.read(prior_text(prior()))
    assert again.tiles == prior().tiles
    assert again.groups == prior().groups
    assert Prior.read(prior_text(prior(), least=2.0)).tiles == {}
