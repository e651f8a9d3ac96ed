"""Symbolic evaluation of the lanes of a warp, from expressions of thread and block indices.

`subscript` parses them, `average` computes costs of accesses, `conditions` the share of warps in a branch.

Source: Baghsorkhi et al., PPoPP 2010, Sec. 3.
"""
