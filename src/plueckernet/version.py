"""The version of the package, in the one place that both the build and the code read."""

__version__ = "0.1.0"
