"""The tables of numbers in README.md and docs/numbers.md, made from ``results/*.json``.

``python -m benchmarks.readme_table`` writes them between two markers: in the README what has a goal, in the docs all.
A result takes part by a list ``table`` of rows, each with ``what`` was measured, what was ``asked`` of it (may be
missing) and what was ``measured``, as text.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, filled

README = Path(__file__).parents[1] / "README.md"
NUMBERS = README.parent / "docs" / "numbers.md"
MARKERS = "numbers", "readme_table"
ORDER = (
    "learned",
    "crops_invariant",
    "registration",
    "estimation",
    "confidence",
    "calibration",
    "networks_cpu",
    "networks_gpu",
)


def rows(name: str, result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What a result has to say: its own table, or what is known to be in it."""
    if "table" in result:
        return [(row["what"], row.get("asked", ""), row["measured"]) for row in result["table"]]
    known = {"confidence": _confidence_rows, "networks_cpu": _cpu_rows, "networks_gpu": _gpu_rows}
    return known[name](result) if name in known else []


def table(folder: Path = RESULTS, *, goals: bool = False) -> str:
    """All results that there are, or those with a goal, as one Markdown table."""
    paths = sorted(folder.glob("*.json"), key=lambda path: (_place(path.stem), path.stem))
    found = [
        (*row, path.name)
        for path in paths
        for row in rows(path.stem, json.loads(path.read_text(encoding="utf-8")))
        if row[1] or not goals
    ]  # fmt: skip
    if not found:
        return "No benchmark has been run yet: `make bench`."
    lines = [f"| {what} | {asked or '–'} | {measured} | `{source}` |" for what, asked, measured, source in found]
    return "\n".join(["| what | goal | measured | in `benchmarks/results` |", "|---|---|---|---|", *lines])


def _place(name: str) -> int:
    return ORDER.index(name) if name in ORDER else len(ORDER)


def _confidence_rows(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    found = []
    for name, how in (("learned", "with weights"), ("plain", "without weights")):
        sure = [one for one in result.get(name, {}).get("reliability_on_held_out_half", []) if one["from"] >= 0.9]
        pairs = sum(one["pairs"] for one in sure)
        if pairs:
            said, right = (sum(one["pairs"] * one[key] for one in sure) / pairs for key in ("said", "right"))
            measured = f"{right:.0%} are right, {said:.0%} was said ({pairs} held-out pairs)"
            found.append((f"results that say a confidence of 0.9 or more, {how}", "as said", measured))
    return found


def _cpu_rows(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    largest = max(result.get("matcher_and_transport", []), key=lambda one: one["lines"], default=None)
    plain = result.get("plain_pluecker")
    found = []
    if largest is not None:
        network, lines = largest["network"], largest["lines"]
        found.append(
            (f"memory of the {network} network, two maps of {lines} lines", "", f"{largest['peak_gib']:.1f} GiB")
        )
    if plain is not None:
        found.append(
            ("PlückerNet on the CPU, against a plain version of it", "", f"{plain['ratio']:.1f} times as fast")
        )
    return found


def _gpu_rows(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    timed = [row for row in result.get("rows", []) if "pairs_per_second" in row and row["network"] == "invariant"]
    if not timed:
        return []
    best = max(timed, key=lambda row: row["pairs_per_second"])
    how = f"{best['variant']}{', compiled' if best['compiled'] else ''}, {result['metadata']['device']}"
    return [("matching by the invariant network", "", f"{best['pairs_per_second']:.0f} pairs a second ({how})")]


def main() -> None:
    """Write the tables; say which results have none."""
    for page, content in ((README, table(goals=True)), (NUMBERS, table())):
        page.write_text(filled(page.read_text(encoding="utf-8"), *MARKERS, content), encoding="utf-8")
    for path in sorted(RESULTS.glob("*.json")):
        if not rows(path.stem, json.loads(path.read_text(encoding="utf-8"))):
            print(f"{path.name} has no rows for the tables")


if __name__ == "__main__":
    main()
