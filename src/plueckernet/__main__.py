"""`python -m plueckernet`."""

from plueckernet.cli import main

if __name__ == "__main__":
    main()
