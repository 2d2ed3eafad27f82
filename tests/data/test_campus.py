"""The campus has as many lines as asked for, and is the same for the same seed."""

import pytest
import torch

from plueckernet.data.campus import campus
from plueckernet.errors import InputError


def test_size_and_seed():
    site = campus(3, 4000)
    assert len(site) == 4000
    assert torch.equal(site.endpoints, campus(3, 4000).endpoints)
    assert not torch.equal(site.endpoints, campus(4, 4000).endpoints)
    extent = site.midpoints().amax(0) - site.midpoints().amin(0)
    assert 20 < float(extent[0]) < 200


def test_no_lines_are_refused():
    with pytest.raises(InputError, match="at least one"):
        campus(0, 0)
