"""`python -m plueckernet.cli`."""

from plueckernet.cli import main

if __name__ == "__main__":
    main()
