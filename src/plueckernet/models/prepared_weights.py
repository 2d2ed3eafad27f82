"""What inference computes from weights alone, kept until they change."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import chain
from typing import Any, TypeVar

from torch import nn

_T = TypeVar("_T")


class PreparedWeights:
    """Values that follow from the parameters of a module; a copy of the module begins without them."""

    def __init__(self) -> None:
        self._parameters: list[dict[str, nn.Parameter | None]] = []  # of all submodules, which take long to look for
        self._state: list[tuple[int, int]] = []
        self._values: dict[Hashable, Any] = {}

    def get(self, module: nn.Module, name: Hashable, prepare: Callable[[], _T]) -> _T:
        """The value of that name, prepared again if a parameter was replaced or changed in place."""
        self._parameters = self._parameters or [submodule._parameters for submodule in module.modules()]
        own = chain.from_iterable(parameters.values() for parameters in self._parameters)
        state = [(values.data_ptr(), values._version) for values in own if values is not None]
        if state != self._state:
            self._state, self._values = state, {}
        if name not in self._values:
            self._values[name] = prepare()
        value: _T = self._values[name]
        return value

    def __reduce__(self) -> tuple[type[PreparedWeights], tuple[()]]:
        return PreparedWeights, ()
