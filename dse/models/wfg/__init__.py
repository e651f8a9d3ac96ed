"""The work flow graph models: graphs of an average warp, their weights, and models based on them."""
