"""Register 3D line maps without an initial guess."""

from plueckernet.version import __version__

__all__ = ["__version__"]
