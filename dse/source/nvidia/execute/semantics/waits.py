"""Waits for asynchronous work, and requests for resources: they succeed at once.

What is copied is taken to be there when it is waited for; `dse.source.nvidia.execute.arrivals` checks that
somebody sends it.
"""

import numpy as np

from dse.source.nvidia.execute.semantics.binding import U32, Binder, Evaluate, Unsupported, rule


@rule
def succeeds(binder: Binder) -> Evaluate:
    """SYNCS.PHASECHK: a phase of a barrier in shared memory is over; USETMAXREG: there are registers."""
    if not binder.step.has("PHASECHK", "TRY_ALLOC"):
        raise Unsupported("what it gives back")
    true = np.ones((1, 1), bool)
    return lambda r, lanes: (true,)


@rule
def reserve_tensor_memory(binder: Binder) -> Evaluate:
    """UTCATOMSWS: the first columns of tensor memory are free."""
    values = (np.ones((1, 1), bool), np.zeros((1, 1), U32))
    results = tuple(values[target.kind == "register"] for target in binder.step.targets)
    return lambda r, lanes: results
