"""WFG in the Pipeline paper's notation, against a walk over the graph in plain Python."""

from points import equals_reference, lumped

from dse.models.wfg.pipeline import predict


def walk(nodes, g):
    """Both passes of Sec. 2.4. A node is C (instructions, ILP), M (whether the load is waited for) or B,
    with how often it is executed. `g`: omega, l_comp, L_comp, l_mem, L_mem, l_instr."""
    computation = memory = waits = barriers = 0.0
    for kind, times, *rest in nodes:
        if kind == "C":  # Eq. L30
            computation += times * rest[0] * max(g.l_comp, g.L_comp / (rest[1] * g.omega))
        elif kind == "M":
            memory += times
            waits += times * rest[0]
        else:
            barriers += times
    cycles = computation + g.l_instr * (memory + barriers)  # Eqs. L31, L32: CYC_comp
    between = cycles / (waits + barriers + 1)  # Eq. L35
    left = (memory * g.l_mem - cycles) / memory if memory else 0.0
    after_load = g.l_instr + max(0.0, left)  # Eqs. L33, L34
    warp = computation + g.l_instr * barriers
    reached = set()
    for kind, times, *rest in nodes:
        if kind == "M":
            wait = g.L_mem - (g.omega - 1) * between  # Eq. L36
            warp += times * (max(after_load, wait) if rest[0] else after_load)
            if rest[0] and times:
                reached.add("exposed" if wait > after_load else "hidden")
    reached.add("bandwidth" if left > 0 else "computation")
    return warp * g.omega, cycles, between, reached  # Eqs. L37, L39


def described(p, q):
    """Equal blocks, one for each wait; where nothing is waited for, one."""
    waits = p.load_insts / p.mlp
    blocks = waits if waits else 1.0
    nodes = [("C", blocks, q.a_comp / blocks, p.ilp), ("M", waits, 1), ("M", q.a_mem - waits, 0)]
    return [*nodes, ("B", p.work_barrier)]


def test_equals_the_paper_in_plain_python():
    def reference(p):
        q = lumped(p)
        q.l_instr = 1 / p.issue_limit
        nodes = described(p, q)
        cycles, comp_cycles, between, reached = walk(nodes, q)
        actual = {"cycles": cycles * p.waves, "comp_cycles": comp_cycles, "between_waits": between}
        case = " and ".join(sorted(reached)) if q.a_mem else "no memory"
        return case if q.a_comp else f"{case}, no computation", actual

    shared = {f"{bound}{wait}" for bound in ("bandwidth", "computation") for wait in ("", " and exposed")}
    cases = shared | {"bandwidth and hidden", "computation and hidden", "no memory"}
    cases |= {f"{case}, no computation" for case in cases}
    equals_reference(predict, reference, cases)
