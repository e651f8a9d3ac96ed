"""Result files of every command, read back: configurations with a forecast for each model, and scores."""
