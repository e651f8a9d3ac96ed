"""The library's times: no faster than the machine, and near what is published."""

import jax
import numpy as np

from dse.explore.matrix.rank import bound
from dse.hardware import gpus
from dse.models.matrix import library
from dse.models.matrix.case import BETWEEN_EVENTS
from dse.models.matrix.machine import Machine
from dse.models.matrix.problem import OPERANDS, Product

FILES = [gpus.load(name) for name in ("a100-sxm", "h100-sxm", "l40s", "b200")]
MACHINE = Machine.of(FILES)
library_seconds = jax.jit(library.library_seconds, static_argnums=1)


def test_not_below_the_roofline():
    sizes = (1, 17, 256, 8192)
    kinds = ("bf16", "tf32", "fp32", "int8_w8a16")
    products = tuple(Product(m, n, k, operands=x) for x in kinds for m in sizes for n in sizes for k in sizes)
    assert (library_seconds(MACHINE, products) >= bound(FILES, products, BETWEEN_EVENTS)).all()
    kinds = [name for name, kind in OPERANDS.items() if kind.sums_apart]
    products = [Product(64, 4096, 4096, operands=name) for name in kinds] + [Product(64, 4096, 4096, 8, 2)]
    assert np.isnan(library_seconds(MACHINE, tuple(products))).all()


def test_large_products_take_what_is_measured():
    # 8,192 cubed in fp16 on an A100: 230 to 260 TFLOP/s by most who measured it
    [[seconds]] = library_seconds(Machine.of(FILES[:1]), (Product(8192, 8192, 8192, operands="fp16"),))
    assert 210e12 < 2 * 8192**3 / float(seconds) < 265e12
    # Measuring Max-Achievable FLOPs, part 2: 708 TFLOP/s; 1,273 at 4096 × 3648 × 32896 in fp8
    machine = Machine.of([gpus.load("mi300x")])
    products = (Product(4096, 4864, 32896), Product(4096, 3648, 32896, operands="fp8_w8a8"))
    flops = np.array([2.0 * product.tokens * product.columns * product.depth for product in products])
    np.testing.assert_allclose(
        flops / np.asarray(library_seconds(machine, products))[0], [708e12, 1273e12], rtol=0.2
    )
    assert np.isfinite(library_seconds(machine, (Product(64, 4096, 4096, operands="fp8_w8a8_block"),))).all()
