"""The command line: a command a file, which parses, calls the library and shows what it returns.

It is light to import: what is heavy is imported when a command runs.
"""
