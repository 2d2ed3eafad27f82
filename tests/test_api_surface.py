"""The public API is an inventory: nothing comes or goes by accident."""

import plueckernet as pn


def test_every_public_name_loads():
    for name in pn.__all__:
        assert getattr(pn, name) is not None


def test_inventory():
    assert sorted(dir(pn)) == sorted(pn.__all__)
    assert {"LineSet", "Pose", "Similarity", "read_lines", "register", "write_lines"} <= set(pn.__all__)


def test_unknown_names_are_refused():
    assert not hasattr(pn, "regsiter")
