"""`python -m onlooker` is the command `onlooker`."""

from onlooker.cli import main

if __name__ == "__main__":
    main()
