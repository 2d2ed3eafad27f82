"""Files written by other programs, if they are available."""

from __future__ import annotations

import numpy as np
import pytest
from tests.io.samples import SHARED_LINES

from plueckernet import register
from plueckernet.io import read_lines, read_lines_report, summarise_lines

pytestmark = pytest.mark.skipif(not SHARED_LINES.is_dir(), reason="../shared/data/lines is not here")

# file, format, number of lines, extent
EXPECTED = [
    ("line3dpp/2016-01-22_W1920_sigmaA5_minB0.1__6576a57.txt", "line3dpp", 1862, (4.56, 2.78, 2.67)),
    ("line3dpp/2016-03-23_WFULL_sigmaA10_minB0.1__90244a0.txt", "line3dpp", 2174, (4.64, 2.75, 2.68)),
    ("line3dpp/2016-06-29_WFULL_sigmaA10__de3f60f.txt", "line3dpp", 2501, (5.11, 2.75, 2.90)),
    ("line2plane/DJI_cut.obj", "obj", 3328, (13.5, 9.61, 15.89)),
    ("line2plane/line_segments_3d_clustered_allpics_11_5_18.obj", "obj", 22786, (36.73, 13.82, 27.42)),
    ("lidar_lines/corridors_line_3d.txt", "txt", 1547, (46.98, 38.49, 3.18)),
    ("lidar_lines/smith_line_3d.txt", "txt", 7251, (156.23, 109.97, 35.45)),
    ("lidar_lines/bridge_line_3d.txt", "txt", 306, (11.04, 6.89, 11.92)),
    ("cityjson/delft.json", "cityjson", 54439, (524.37, 327.64, 17.30)),
    ("cityjson/rotterdam_subset.json", "cityjson", 688, (548.23, 433.34, 18.29)),
    ("cityjson/multi_lod.json", "cityjson", 522, (474.88, 524.96, 9.78)),
    ("bim/duplex_edges.npy", "npy", 8742, (9.28, 26.57, 8.18)),
    ("roofs/10007.obj", "obj", 47, (21.05, 20.04, 5.02)),
]


@pytest.mark.parametrize(("name", "kind", "count", "extent"), EXPECTED)
def test_counts_and_extents(name: str, kind: str, count: int, extent: tuple[float, ...]) -> None:
    report = read_lines_report(SHARED_LINES / name)
    summary = summarise_lines(report.lines)
    assert (report.format, summary.count) == (kind, count)
    np.testing.assert_allclose(np.subtract(summary.upper, summary.lower), extent, atol=0.01)


def test_all_files_read() -> None:
    paths = sorted(path for path in SHARED_LINES.glob("*/*") if path.is_file())
    dropped = {path.name: report.dropped for path in paths if (report := read_lines_report(path)).dropped}
    assert dropped == {"10007.obj": {"zero length": 1}}


def test_levels_of_detail_grow() -> None:
    path = SHARED_LINES / "cityjson" / "multi_lod.json"
    counts = [len(read_lines(path, lod=lod)) for lod in ("1.2", "1.3", "2.2")]
    assert counts == sorted(counts)
    assert counts[-1] == len(read_lines(path))


def test_national_grid_keeps_its_millimetres() -> None:
    lines = read_lines(SHARED_LINES / "cityjson" / "delft.json")
    millimetres = (lines.endpoints - lines.endpoints.reshape(-1, 3)[0]) * 1000
    assert float((millimetres - millimetres.round()).abs().max()) < 1e-6


@pytest.mark.parametrize(("export", "height"), [("v2", 0.0), ("ade20", 112.0), ("multizone", 110.0)])
def test_the_fzk_house_of_ifc_is_registered_to_its_citygml(export: str, height: float) -> None:
    """10,159 edges of the building model; 59 to 299 of the same house in three CityGML files in UTM coordinates."""
    city = SHARED_LINES.parent / "more_lines" / "fzk_house" / f"fzk_lod3_{export}.txt"
    if not city.is_file():
        pytest.skip("../shared/data/more_lines is not here")
    result = register(SHARED_LINES / "bim" / "AC20-FZK-Haus_edges.npy", city)
    assert result.ok
    expected = np.eye(4)
    expected[:3, 3] = 458877.0, 5438353.0, height
    np.testing.assert_allclose(result.target_T_source.matrix(), expected, rtol=0, atol=1e-5)
