"""The command line: one file a command, which parses options, calls the library and shows the result.

Importing it is cheap: heavy modules are imported when a command runs.
"""
