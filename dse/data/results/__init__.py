"""Read back the result files of all commands: configurations with a forecast a model, and scores."""
