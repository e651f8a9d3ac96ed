"""Whatever a source spells, neither compiler opens a file outside of its folders."""

import sys
from dataclasses import replace
from functools import partial

import pytest

from dse.core.landlock import confined
from dse.core.processes import run
from dse.errors import DseError
from dse.source.amd.compile import source as clang
from dse.source.contract import Failure
from dse.source.nvidia.compile import nvrtc
from dse.source.nvidia.compile.includes import included

KERNEL = 'extern "C" __global__ void k(int* x) { *x = N; }\n'
PLAIN = [  # which the text alone tells
    '#include "{secret}"',
    "#include <{secret}>",
    '  #  include"{secret}"',
    '%:include "{secret}"',
    '??=include "{secret}"',
    '#inc\\\nlude "{secret}"',
    '#inc??/\nlude "{secret}"',
    '/* a */ # /* b\n */ include /* c */ "{secret}"',
    'const char* a = "/*";\n#include "{secret}"\nconst char* b = "*/";',
    '#import "{secret}"',
    '#include "../secret.h"',
    '#include "link.h"',
]
SPELLINGS = [
    *PLAIN,
    '#\rinclude "{secret}"',
    '\r#include "{secret}"',
    '#include\\\r\n"{secret}"',
    '#\\\finclude "{secret}"',
    '#\\\v\ninclude "{secret}"',
    '#\0include "{secret}"',
    '\ufeff#define FILE "{secret}"\n#include FILE',
    '#define FILE "{secret}"\n#include \ufeffFILE',
    '#if __has_include("{secret}")\n#error there\n#endif',
    '#define FILE "{secret}"\n#if __has_include(FILE)\n#error there\n#endif',
    '#embed "{secret}"',
    '#include "//../secret.h"',
    *(
        form.replace(" ", space)
        for space in ("\xa0", "\u2028")
        for form in (
            '# include "{secret}"',
            '#include "{secret}"',
            ' #define FILE "{secret}"\n #include FILE',
        )
    ),
]
INJECTED = 'k\n#include "{secret}"\n'
READERS = {
    "nvrtc": (nvrtc.read_source, lambda source: nvrtc.compile_source(source, 80, {})),
    "clang": (clang.read_source, lambda source: clang.compile_source(source, 0x90A, ())),
}


def laid_out(outside):
    here = outside / "kernel"
    here.mkdir()
    (outside / "secret.h").write_text("the secret\n")
    (here / "own.h").write_bytes(b"#define N 3\r\n")
    (here / "link.h").symlink_to(outside / "secret.h")
    (here / "k.cu").write_text('#include "own.h"\n' + KERNEL)
    return here


@pytest.fixture
def folder(tmp_path):
    return laid_out(tmp_path)


@pytest.fixture(scope="module")
def kept_folder(tmp_path_factory):
    """One for all spellings: the process of a compiler is confined to its folder."""
    return laid_out(tmp_path_factory.mktemp("wall"))


def outcome(make):
    """Return what a compiler or a reader says against a source; "" where it made code."""
    try:
        made = make()
    except DseError as error:
        return str(error)
    return made.message if isinstance(made, Failure) else ""


@pytest.mark.quick("nvrtc", "<{secret}>", "link.h", "import")
@pytest.mark.parametrize("compiler", READERS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_spelling_opens_what_lies_elsewhere(kept_folder, compiler, spelling):
    read, compiled = READERS[compiler]
    text = spelling.replace("{secret}", str(kept_folder.parent / "secret.h")) + f"\n#define N 3\n{KERNEL}"
    unscanned, spelled = replace(read(kept_folder / "k.cu"), text=text), kept_folder / "spelled.cu"
    spelled.write_text(text, newline="")
    alone, scanned = outcome(lambda: compiled(unscanned)), outcome(lambda: compiled(read(spelled)))
    assert scanned
    for message in (alone, scanned):
        assert not any(word in message for word in ("the secret", 'identifier "the"', "error: there"))


@pytest.mark.quick("nvrtc")
@pytest.mark.parametrize("compiler", READERS)
def test_what_is_added_to_a_source_adds_no_line(folder, compiler):
    read, _ = READERS[compiler]
    line = INJECTED.replace("{secret}", str(folder.parent / "secret.h"))
    with pytest.raises(DseError, match=r"kernel: found .*, expected no control characters"):
        read(folder / "k.cu", line)
    for option in (f"-DN={line}", f"-D{line}=3"):
        with pytest.raises(DseError, match=r"compiler options: found .*, expected no control characters"):
            read(folder / "k.cu", "", (), [option])
    source = read(folder / "k.cu")
    compile_with = {
        "nvrtc": lambda source, macros: nvrtc.compile_source(source, 80, macros),
        "clang": lambda source, macros: clang.compile_source(source, 0x90A, [*macros.items()]),
    }
    for macro in ({line: 3}, {"M": line}):
        message = outcome(partial(compile_with[compiler], source, macro))
        assert "the secret" not in message
        assert "no control characters" in message or "M" in macro


@pytest.mark.parametrize("spelling", PLAIN)
def test_files_elsewhere_are_refused_and_not_quoted(folder, spelling):
    text = spelling.replace("{secret}", str(folder.parent / "secret.h"))
    refused = r"^k.cu: include: found '.*', expected a file in .*kernel, below it"
    with pytest.raises(DseError, match=refused) as error:
        list(included(text, "k.cu", [str(folder)]))
    assert "the secret" not in str(error.value)


def test_files_below_the_folder_are_read_once(folder):
    (folder / "inner").mkdir()
    (folder / "inner" / "values.h").write_text('#include "depth.h"\n')
    (folder / "inner" / "depth.h").write_text("// deep")

    def files(text):
        return [part for n, _, content in included(text, "k.cu", [str(folder)]) for part in (n, content)]

    text = '#include "inner/values.h"\n#include <inner/values.h>\n#include <cuda_fp16.h>\n'
    assert files(text) == ["inner/values.h", '#include "depth.h"\n', "depth.h", "// deep"]
    assert files('#include "inner/../inner/depth.h"')[1] == "// deep"
    for directive in ("#include FILE", "int a; /*\n*/ #include FILE(x)", "#\tinclude_next FILE"):
        with pytest.raises(DseError, match=r'^k.cu: include: found .FILE., expected "FILE" or <FILE>'):
            files(directive)


def test_every_file_that_a_name_may_mean_is_scanned(folder):
    """A compiler looks for <x.h> in other folders first than for "x.h"."""
    (folder / "below").mkdir()
    (folder / "below" / "a.h").write_text("#include <x.h>\n")
    (folder / "below" / "x.h").write_text("\n")
    (folder / "x.h").write_text(f'#include "{folder.parent / "secret.h"}"\n')
    (folder / "k.cu").write_text(f'#include "below/a.h"\n{KERNEL}')
    with pytest.raises(DseError, match=r"x\.h: include: found '.*secret\.h', expected a file in"):
        nvrtc.read_source(folder / "k.cu")


def test_a_control_character_is_refused_by_its_place(folder):
    (folder / "own.h").write_bytes(b"#define N 3\n  \x0c\n")
    with pytest.raises(DseError, match=r"own\.h:2:3: found the control character U\+000C, expected none"):
        nvrtc.read_source(folder / "k.cu")


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock is Linux's")
def test_a_confined_process_reads_its_folders_only(folder):
    ask = [sys.executable, "-c", "import sys; print(open(sys.argv[1]).read())"]
    allowed = [sys.prefix, sys.base_prefix, folder]
    assert "define N" in run(confined([*ask, str(folder / "own.h")], allowed)).output
    assert "PermissionError" in run(confined([*ask, "/proc/self/environ"], allowed)).errors
    assert "PermissionError" in run(confined([*ask, str(folder / "link.h")], allowed)).errors


@pytest.mark.quick("nvrtc")
@pytest.mark.parametrize("compiler", READERS)
def test_text_of_a_compiler_is_read_up_to_its_limit(folder, compiler, monkeypatch):
    read, compiled = READERS[compiler]
    source = read(folder / "k.cu")
    assert not isinstance(compiled(source), Failure)  # clang is asked for its version without that limit
    monkeypatch.setenv("DSE_COMPILE_MB", "0.001")
    made = compiled(source)
    assert isinstance(made, Failure)
    assert made.message.endswith("ended: it wrote over 0.001 MB (DSE_COMPILE_MB)")
