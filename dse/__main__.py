"""Entry point of `dse` and `python -m dse`. From here on an interrupt prints one line."""

try:
    from dse.cli.entry import main
except KeyboardInterrupt:
    import os

    os.write(2, b"dse: interrupted\n")
    os._exit(130)

if __name__ == "__main__":
    main()
