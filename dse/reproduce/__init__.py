"""The papers' own numbers beside ours: a module a paper, a function a table or worked example."""
