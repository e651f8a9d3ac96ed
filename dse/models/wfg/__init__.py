"""The work flow graph models: graphs of an average warp, their weights, and the models made of them."""
