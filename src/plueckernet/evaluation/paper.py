"""Numbers that the paper publishes: Table 1, Sec. 4.1 and 4.2."""

from __future__ import annotations

QUARTILES = ("Q1", "median", "Q3")
TABLE_1: dict[str, dict[str, dict[str, tuple[float, float, float]]]] = {
    "indoor": {
        "ICL": {"rotation": (0.353, 0.520, 0.795), "translation": (0.030, 0.044, 0.078)},
        "regression": {"rotation": (2.436, 3.610, 4.935), "translation": (0.151, 0.240, 0.367)},
        "PlückerNet": {"rotation": (0.342, 0.468, 0.621), "translation": (0.013, 0.019, 0.026)},
    },
    "outdoor": {
        "ICL": {"rotation": (0.803, 2.050, 5.239), "translation": (0.084, 0.226, 0.881)},
        "regression": {"rotation": (15.902, 20.934, 24.947), "translation": (1.347, 1.871, 2.281)},
        "PlückerNet": {"rotation": (0.482, 0.961, 1.791), "translation": (0.032, 0.064, 0.119)},
    },
}
SECONDS: dict[str, dict[str, dict[str, float]]] = {  # means, on a Titan XP
    "indoor": {
        "PlückerNet": {"features": 0.037, "matching": 0.008, "pose": 0.327},
        "ICL": {"pose": 0.055},
    },
    "outdoor": {
        "PlückerNet": {"features": 0.036, "matching": 0.024, "pose": 0.335},
        "ICL": {"pose": 0.144},
    },
}
LINES = {"indoor": {"mean": 306, "median": 312}, "outdoor": {"mean": 676, "median": 118}}  # of a scene
APOLLO = {"PlückerNet": (1.13, 0.44), "ICL": (2.83, 1.12)}  # median degrees and metres of consecutive frames


def recall_points(dataset: str, method: str, quantity: str) -> list[tuple[float, float]]:
    """Points of the paper's recall curves that it gives numbers for: threshold and recall."""
    if dataset == "street":
        medians = APOLLO.get(method)
        return [] if medians is None else [(medians[("rotation", "translation").index(quantity)], 0.5)]
    published = TABLE_1.get(dataset, {}).get(method)
    return [] if published is None else list(zip(published[quantity], (0.25, 0.5, 0.75), strict=True))
