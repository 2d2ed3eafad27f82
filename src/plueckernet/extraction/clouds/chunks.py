"""The type of all readers' results: points in chunks."""

from plueckernet.io.native import Chunks

__all__ = ["Chunks"]
