"""Draw docs/images/house.png, the picture of the README: ``python docs/make_picture.py``."""

from importlib.resources import files
from pathlib import Path

from plueckernet import read_lines, register
from plueckernet.report import save_plot

demo = Path(str(files("plueckernet"))) / "demo"
source, target = read_lines(demo / "house_monday.obj"), read_lines(demo / "house_friday.txt")
result = register(source, target)
save_plot(Path(__file__).parent / "images" / "house.png", source, target, result.target_T_source)
