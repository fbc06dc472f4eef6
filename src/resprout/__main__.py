"""`python -m resprout` is the `resprout` command."""

from resprout.cli.main import main

if __name__ == "__main__":
    main()
