"""The kernel of :func:`plueckernet.estimation.gauss_newton.inverse_information`."""

from __future__ import annotations

import ctypes

import numpy as np
from jaxtyping import Float

from plueckernet.kernels.library import DOUBLE, POINTER, function

_inverse_information = function("inverse_information", POINTER, DOUBLE, POINTER, result=ctypes.c_int)


def inverse_information(
    information: Float[np.ndarray, "6 6"], least_eigenvalue: float
) -> Float[np.ndarray, "6 6"] | None:
    """The inverse; None if an eigenvalue of the information with unit diagonal is not larger than the least one."""
    information = np.ascontiguousarray(information, np.float64)
    covariance = np.empty((6, 6))
    failed = _inverse_information()(information.ctypes.data, least_eigenvalue, covariance.ctypes.data)
    return None if failed else covariance
