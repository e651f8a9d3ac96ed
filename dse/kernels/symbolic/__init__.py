"""Symbolic evaluation of the lanes of a warp, from expressions of thread and block indices.

`subscript` reads them, `lanes` says which threads a warp has, `coalescing` and `banks` count what their
addresses cost, `conditions` how many warps take a branch, `unknowns` what can be said where a value is not
known.

Source: Baghsorkhi et al., PPoPP 2010, Sec. 3.
"""
