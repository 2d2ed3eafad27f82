"""A row of the results: what is known about one pair."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plueckernet.batch.pairs import BatchPair
from plueckernet.errors import MissingDependencyError
from plueckernet.io.files import parsed_json
from plueckernet.result import RegistrationResult

ERROR = "error"  # the status of a pair that could not be computed
REQUIRED = ("number", "name", "source", "target", "status", "reason")  # columns without empty cells
ResultRow = dict[str, Any]


@dataclass(frozen=True, eq=False)
class BatchRow:
    """The outcome of one pair."""

    number: int  # of the pair in the list, counted from 0
    name: str
    source: str
    target: str
    status: str  # success, ambiguous, failed; or error: the pair could not be computed
    reason: str
    document: str | None  # the result as JSON; None for an error

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> BatchRow:
        """From the columns of a table."""
        return BatchRow(**{name: row[name] for name in cls.__dataclass_fields__})

    def result(self) -> RegistrationResult | None:
        """The result of the registration; None for an error."""
        if self.document is None:
            return None
        return RegistrationResult.from_dict(parsed_json(self.document, f"pair {self.number}"), f"pair {self.number}")


def result_row(number: int, pair: BatchPair, result: RegistrationResult) -> ResultRow:
    """The row of a pair that was registered, whatever its status."""
    document = result.to_dict()
    pose, covariance = document["target_T_source"], document["covariance"]
    return {
        **error_row(number, pair, document["reason"]),
        "status": document["status"],
        "confidence": document["confidence"],
        "target_T_source": None if pose is None else [value for row in pose for value in row],
        "covariance": None if covariance is None else [value for row in covariance for value in row],
        "num_inliers": document["num_inliers"],
        "source_lines": document["num_lines"][0],
        "target_lines": document["num_lines"][1],
        "seconds": sum(document["timings"].values()),
        "document": json.dumps(document, allow_nan=False),
    }


def error_row(number: int, pair: BatchPair, reason: str) -> ResultRow:
    """The row of a pair that could not be computed."""
    unknown = ("target_T_source", "covariance", "num_inliers", "source_lines", "target_lines", "seconds", "document")
    return {
        "number": number,
        "name": pair.name,
        "source": _printable(pair.source),
        "target": _printable(pair.target),
        "status": ERROR,
        "reason": _printable(reason),
        "confidence": 0.0,
        **dict.fromkeys(unknown),
    }


def _printable(value: object) -> str:
    """Text that UTF-8 can hold: names of files may have other bytes."""
    return str(value).encode("utf-8", "backslashreplace").decode()


def load_pyarrow() -> Any:
    """The package pyarrow with its Parquet; raises if it is not installed."""
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise MissingDependencyError("pyarrow", "batch") from error


def row_schema(pyarrow: Any) -> Any:
    """The columns of the table."""
    text, numbers = pyarrow.string(), pyarrow.list_(pyarrow.float64())
    columns = {
        "number": pyarrow.int64(),
        **dict.fromkeys(("name", "source", "target", "status", "reason"), text),
        "confidence": pyarrow.float64(),
        "target_T_source": numbers,  # 4x4, row by row
        "covariance": numbers,  # square, row by row
        **dict.fromkeys(("num_inliers", "source_lines", "target_lines"), pyarrow.int64()),
        "seconds": pyarrow.float64(),
        "document": text,
    }
    return pyarrow.schema(list(columns.items()))
