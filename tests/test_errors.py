import copy
import pickle
from pathlib import Path

import pytest

from plueckernet import errors


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.InputError("negative threshold"), ValueError),
        (errors.ShapeError("points", ("n", 3), (4, 2)), ValueError),
        (errors.FormatError("a.obj", "no lines"), ValueError),
        (errors.DegenerateError("all lines are parallel"), Exception),
        (errors.MissingDependencyError("ezdxf", "io"), ImportError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.__name__,
)
def test_every_error_is_ours_and_the_builtin_that_callers_expect(error, builtin):
    assert isinstance(error, errors.PlueckernetError)
    assert isinstance(error, builtin)


@pytest.mark.parametrize("warning", [errors.UnitWarning, errors.BatchSizeWarning])
def test_a_warning_is_not_an_error(warning):
    assert issubclass(warning, UserWarning)
    assert not issubclass(warning, errors.PlueckernetError)


def test_degenerate_geometry_is_not_bad_input():
    assert not issubclass(errors.DegenerateError, ValueError)


@pytest.mark.parametrize(
    ("expected", "actual", "message"),
    [
        (("n", 3), (4, 2), "points: expected shape (n, 3), got (4, 2)"),
        ((3,), (), "points: expected shape (3,), got ()"),
        (("*batch", "n", 6), (0,), "points: expected shape (*batch, n, 6), got (0,)"),
    ],
)
def test_shape_error_tells_both_shapes(expected, actual, message):
    error = errors.ShapeError("points", expected, list(actual))
    assert str(error) == message
    assert (error.name, error.expected, error.actual) == ("points", expected, actual)


def test_format_error_points_to_the_line():
    error = errors.FormatError("maps/a.obj", "expected 3 numbers, found 2", line=7)
    assert str(error) == f"{Path('maps/a.obj')}:7: expected 3 numbers, found 2"
    assert (error.path, error.line) == (Path("maps/a.obj"), 7)
    assert error.reason == "expected 3 numbers, found 2"


def test_format_error_without_a_line_names_the_file_alone():
    error = errors.FormatError(Path("a.npy"), "truncated header")
    assert str(error) == "a.npy: truncated header"
    assert error.line is None


def test_missing_dependency_tells_what_to_install():
    error = errors.MissingDependencyError("ezdxf", extra="io")
    assert str(error) == "ezdxf is not installed: pip install 'plueckernet[io]'"
    assert (error.package, error.extra) == ("ezdxf", "io")


@pytest.mark.parametrize(
    "error",
    [
        errors.ShapeError("points", ("n", 3), (4, 2)),
        errors.FormatError("a.obj", "no lines", 3),
        errors.MissingDependencyError("ezdxf", "io"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_worker_processes(error):
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)
