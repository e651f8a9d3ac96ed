"""The command line: one command a file, light at import. What is heavy is imported when a command runs."""
