"""Symbolic evaluation of the lanes of a warp, from expressions of thread and block indices.

`subscript` reads them, `average` counts what their addresses cost, `conditions` how many warps take a branch.

Source: Baghsorkhi et al., PPoPP 2010, Sec. 3.
"""
