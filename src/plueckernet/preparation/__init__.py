"""Conversion of published datasets to prepared folders."""

from plueckernet.preparation.published import DATASETS
from plueckernet.preparation.steps import census, prepare
from plueckernet.preparation.units import Dataset, Unit, UnitResult

__all__ = ["DATASETS", "Dataset", "Unit", "UnitResult", "census", "prepare"]
