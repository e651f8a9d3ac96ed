"""WFG corrected, against a walk over the graph in plain Python."""

from points import equals_reference, lumped

from dse.models.wfg.corrected import predict


def warp_run(blocks, barriers, g):
    """CPR of WFG* (λ_mem^instr = 0); a block: how often, computations, ILP, waited loads, other accesses."""
    computation = [c * max(g.l_comp, g.L_comp / (ilp * g.omega)) for _, c, ilp, _, _ in blocks]  # Eq. L30
    cycles = sum(times * item for (times, *_), item in zip(blocks, computation, strict=True))
    loads = sum(times * loads for times, _, _, loads, _ in blocks)
    accesses = loads + sum(times * others for times, *_, others in blocks)
    between = cycles / (loads + barriers + 1)  # Eq. L35
    after_load = max(0.0, (accesses * g.l_mem - cycles) / accesses) if accesses else 0.0  # Eqs. L33, L34
    warp, reached = cycles, {"bandwidth" if after_load else "computation"}
    for times, comp_insts, ilp, loads, others in blocks:
        free = (g.omega - 1) / g.omega * between - comp_insts * g.L_comp / (g.omega * ilp)
        wait = g.L_mem / g.omega - max(0.0, free)  # Eq. L42
        warp += times * (loads * max(after_load, wait) + others * after_load)
        if loads:
            reached.add(("exposed" if wait > after_load else "hidden") + (", credited" if free > 0 else ""))
    return g.omega * warp, reached


def test_equals_the_paper_in_plain_python():
    def reference(p):
        q = lumped(p)
        times = q.waits if q.waits else 1.0
        loads = 1.0 if q.waits else 0.0
        block = (times, q.a_comp / times, p.ilp, loads, (q.a_mem - q.waits) / times)
        cycles, reached = warp_run([block], p.work_barrier, q)
        case = " and ".join(sorted(reached)) if q.a_mem else "no memory"
        return case, {"cycles": cycles * p.waves}

    cases = {"no memory", "bandwidth", "computation"}
    cases |= {f"bandwidth and {wait}{free}" for wait in ("exposed", "hidden") for free in ("", ", credited")}
    # Without a wait for bandwidth, only credited cycles hide a load.
    cases |= {f"computation and {wait}" for wait in ("exposed", "exposed, credited", "hidden, credited")}
    equals_reference(predict, reference, cases)
