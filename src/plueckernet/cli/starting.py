"""Importing what a command needs, in a process that lives for this command alone."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import without collecting garbage, and leave what was imported to the operating system when the process ends.

    PyTorch makes hundreds of thousands of objects when it is imported, and they live as long as the process. Python
    would look for garbage among them again and again, and at its end take them apart one by one: a third of the time of
    a short command. Where PyTorch is imported already, this is not the start of a process, and nothing changes.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
