"""The loops of the microbenchmarks hold what they should, by their machine code."""

from dataclasses import replace

from dse.measure.bench import benchmarks
from dse.measure.bench.benchmarks import check, compiled, in_loop
from dse.source.nvidia.sass.listing import Listing, SassInstruction

SOME = (
    benchmarks.pipe("fp32", 1),
    benchmarks.pipe("l1", 8),
    benchmarks.mix("int32", "imul32", 4),
    benchmarks.banks(2, 0),
    benchmarks.chase("cg"),
    benchmarks.stream("copy_16"),
    benchmarks.local(1),
    benchmarks.BURN,
)


def test_some_of_each_kind():
    checked = check(SOME, [compiled((build, 80)) for build in SOME])
    assert [item.problem for item in checked] == [""] * len(SOME)
    assert checked[0].counts == {"FFMA": 256}
    assert checked[4].counts == {"LDG.64.STRONG.GPU": 64}
    assert checked[5].counts == {"LDG.128.STRONG.GPU": 4, "STG.128": 4}
    assert all(0 < item.registers <= 32 for item in checked[:5])


def test_what_the_compiler_changes_is_noticed():
    [actual] = check([benchmarks.chase("cg")], [compiled((benchmarks.chase("ca"), 80))])
    assert actual.problem == "found 0 LDG.64.STRONG.GPU, expected 64"
    # x + i + i + ... is one multiplication for several additions
    source = benchmarks.source("pipes.cu", "pipes")
    folded = replace(source, text=source.text.replace("mad.lo.u32 %0, %0, %1, %2;", "add.u32 %0, %0, %1;"))
    assert folded != source
    build = benchmarks.pipe("imul32", 1)
    single = benchmarks.compile_source(folded, 80, dict(build.defines))
    [actual] = check([build], [single])
    assert "IMAD, expected 256" in actual.problem


def test_the_loop_that_comes_nearest():
    #      0x0     0x10        0x20        0x30      0x40    0x50    0x60      0x70
    text = "FADD;   FFMA.FTZ;   MUFU.EX2;   BRA 0x10; FFMA;   FFMA;   BRA 0x40; BRA 0x70"
    instructions = []
    for place, row in enumerate(text.split(";")):
        opcode, *target = row.split()
        instructions.append(SassInstruction(16 * place, "", opcode, tuple(target), None))
    listing = Listing("k", 80, tuple(instructions), {})
    assert in_loop(listing, {"FFMA": 2}) == {"FFMA": 2}
    assert in_loop(listing, {"FFMA": 1, "MUFU": 1}) == {"FFMA": 1, "MUFU": 1}
    assert in_loop(listing, {"FADD": 1}) == {"FADD": 0}
