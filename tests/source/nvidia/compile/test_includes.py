"""Which files a source may include."""

from pathlib import Path

import pytest

from dse.errors import DseError
from dse.source.nvidia.compile.includes import included


@pytest.fixture
def folder(tmp_path):
    here = tmp_path / "kernel"
    (here / "inner").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("the secret")
    (here / "inner" / "values.h").write_text('#include "depth.h"\n')
    (here / "inner" / "depth.h").write_text("// deep")
    (here / "link.h").symlink_to(tmp_path / "secret.txt")
    return here


def files(text: str, folder: Path) -> list[str]:
    return [part for name, _, content in included(text, "k.cu", [str(folder)]) for part in (name, content)]


def test_files_below_the_folder_are_read_once(folder):
    text = '#include "inner/values.h"\n#include <inner/values.h>\n#include <cuda_fp16.h>\n'
    assert files(text, folder) == ["inner/values.h", '#include "depth.h"\n', "depth.h", "// deep"]
    assert files('#include "inner/../inner/depth.h"', folder)[1] == "// deep"


@pytest.mark.parametrize(
    "directive",
    [
        '#include "../secret.txt"',
        '#include "{absolute}"',
        "#include <{absolute}>",
        '  #  include"{absolute}"',
        '%:include "{absolute}"',
        '??=include "{absolute}"',
        '#inc\\\nlude "{absolute}"',
        '#inc??/\nlude "{absolute}"',
        '/* a */ # /* b\n */ include /* c */ "{absolute}"',
        'const char* a = "/*";\n#include "{absolute}"\nconst char* b = "*/";',
        '#import "{absolute}"',
        '#include "link.h"',
    ],
)
def test_files_elsewhere_are_refused_and_not_quoted(folder, directive):
    text = directive.replace("{absolute}", str(folder.parent / "secret.txt"))
    with pytest.raises(
        DseError, match=r"^k.cu: include: found '.*', expected a file in .*kernel or below"
    ) as e:
        files(text, folder)
    assert "the secret" not in str(e.value)


@pytest.mark.parametrize(
    "directive", ["#include FILE", "int a; /*\n*/ #include FILE(x)", "#\tinclude_next FILE"]
)
def test_a_macro_cannot_name_a_file(folder, directive):
    with pytest.raises(DseError, match=r'^k.cu: include: found .FILE., expected "FILE" or <FILE>'):
        files(directive, folder)
