"""WFG of a kernel's counts, against the equations in plain Python."""

from points import equals_reference, lumped

from dse.models.wfg.counts import predict


def test_equals_the_paper_in_plain_python():
    def reference(p):
        q = lumped(p)
        times, loads = (q.waits, 1.0) if q.waits else (1.0, 0.0)
        names = ("fp32", "fp64", "int32", "imul32", "sfu")
        insts = sum(vars(p)[f"work_{name}"] for name in names) + p.work_mma_warp
        pipe = max(q.tensor, *(vars(p)[f"work_{name}"] * vars(p)[f"cpi_{name}"] for name in names))
        alone = sum(vars(p)[f"work_{name}"] * vars(p)[f"latency_{name}"] for name in names)
        alone += q.wait_products
        issue = 1 / p.issue_limit
        computed = max(pipe, insts * issue, alone / (p.ilp * q.omega))  # Eq. 3 of all instructions
        shared = 0.0
        if p.shared_insts:
            conflicts = max(p.work_shared / p.shared_insts, 1.0) - 1.0
            waited = p.shared_insts * (p.latency_shared + conflicts * p.cpi_shared)
            busy = max(p.work_shared * p.cpi_shared, p.shared_insts * p.lsu_cycles)
            shared = max(busy, waited / (p.ilp * q.omega))
        comp = computed + shared + issue * (p.work_barrier + q.a_mem)
        lacking = max(0.0, (q.a_mem * q.l_mem - comp) / q.a_mem) if q.a_mem else 0.0
        transfer = lacking + issue  # Eq. 4
        between = comp / (q.a_mem + p.work_barrier + 1)  # Eq. 5
        exposed = q.L_mem - (q.omega - 1) * between  # Eq. 6
        covered = q.a_mem / times * transfer  # by the load itself and the accesses behind it
        wait = loads * times * max(0.0, exposed - covered)
        warp = computed + shared + issue * p.work_barrier + q.a_mem * transfer + wait
        case = "no memory" if not q.a_mem else "waits" if wait else "hidden"
        case += ", bandwidth" if lacking else ""
        return case, {"cycles": q.omega * p.waves * warp, "between_waits": between}

    equals_reference(
        predict, reference, {"no memory", "waits", "waits, bandwidth", "hidden", "hidden, bandwidth"}
    )
