"""Options that files may hand to the compiler."""

import pytest

from dse.errors import DseError
from dse.source.nvidia.compile.options import check


@pytest.mark.parametrize(
    "option",
    [
        "--create-pch=a.pch",
        "--time=a.csv",
        "-fdevice-time-trace=a.json",
        "--pch",
        "kernel.cu",
        "",
        "-",
        "--use-pch=x",
    ],
)
def test_others_are_refused(option):
    with pytest.raises(DseError, match=r"^here: found '.*', expected one of --define-macro, -D"):
        check(["-DN=3", option], "here")
