"""The version of the package; the build and the code read it from here."""

__version__ = "0.1.0"
