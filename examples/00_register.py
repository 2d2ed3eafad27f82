"""Register two line maps and use the pose.

The maps are those of the demo; replace them by your own files. The only requirement is that both maps have the same
unit.
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

# A failed registration has no pose. It has a reason and, in `result.alternatives`, the best candidates.

if result.target_T_source is not None:
    print(result.target_T_source.matrix())  # (4, 4) float64
    degrees, length = result.sigmas()
    print(f"one sigma: {degrees:.2f} degrees and {length:.3f} at the centre of the inliers")
    pn.write_lines("aligned.obj", result.target_T_source @ source)
result.save("result.json")

# Open the report in a browser. The picture needs matplotlib.

pn.write_report("report.html", result, source, target)
save_plot("picture.png", source, target, result.target_T_source)
