"""`python -m dse`: the command line, where no script of that name is on the path."""

from dse.cli.entry import main

if __name__ == "__main__":
    main()
