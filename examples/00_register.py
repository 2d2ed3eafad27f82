"""Register two line maps and use the pose.

The maps are those of the demo; put your own files in their place. Nothing has to be known about them but that both are
in the same unit.
"""

from importlib.resources import files
from pathlib import Path

import plueckernet as pn
from plueckernet.report import save_plot

demo = Path(str(files("plueckernet"))) / "demo"
source = pn.read_lines(demo / "house_monday.obj")  # a LineSet of 509 segments
target = pn.read_lines(demo / "house_friday.txt")  # 404, in another frame

result = pn.register(source, target)
print(result.status, "-", result.reason)
print(f"confidence {result.confidence:.2f}")

# A failure has no pose, but a reason and, in `result.alternatives`, what came closest.

if result.target_T_source is not None:
    print(result.target_T_source.matrix())  # (4, 4) float64
    degrees, length = result.sigmas()
    print(f"one sigma: {degrees:.2f} degrees and {length:.3f} at the middle of the common lines")
    pn.write_lines("aligned.obj", result.target_T_source @ source)
result.save("result.json")

# The report is one file to open in a browser; the picture needs matplotlib.

pn.write_report("report.html", result, source, target)
save_plot("picture.png", source, target, result.target_T_source)
