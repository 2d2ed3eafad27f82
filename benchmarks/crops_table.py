"""What the benchmarks of neighbouring crops count, whoever found the poses; needs nothing but Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

BINS = ((0.5, 0.8), (0.3, 0.5), (0.2, 0.3), (0.1, 0.2))  # share of lines in common
ASKED = (0.98, 0.93, 0.88, 0.70)  # of the learned matcher, right poses
ENOUGH = 10  # lines in common from which a pose can be asked for


@dataclass(frozen=True)
class Outcome:
    """One pair."""

    place: str  # name of the map
    share: int  # row of BINS
    right: bool  # the best pose, whatever is said of it
    called: bool  # a success
    in_common: int  # lines, of the side that has fewer
    right_matches: int = 0  # among the putative ones


def summary(found: Sequence[Outcome]) -> dict[str, Any]:
    """Of some pairs: how many are found, vouched for, and vouched for wrongly."""
    enough = [one for one in found if one.in_common >= ENOUGH]
    return {
        "pairs": len(found),
        "success": _share([one.right and one.called for one in found]),
        "right_whatever_the_status": _share([one.right for one in found]),
        "called_success_but_wrong": sum(one.called and not one.right for one in found),
        "pairs_that_share_ten_lines": len(enough),
        "right_of_those": _share([one.right for one in enough]),
        "right_matches_median": median(one.right_matches for one in found) if found else 0,
    }


def tables(found: Sequence[Outcome]) -> dict[str, Any]:
    """Totals by share of lines in common, and a row for each map and share."""

    def cell(share: int, place: str | None = None) -> dict[str, Any]:
        chosen = [one for one in found if one.share == share and place in (None, one.place)]
        return {"share": BINS[share], **summary(chosen)}

    places = sorted({one.place for one in found})
    return {
        "totals": [cell(share) for share in range(len(BINS))],
        "maps": [{"map": place, **cell(share, place)} for place in places for share in range(len(BINS))],
    }


def markdown(values: dict[str, Any]) -> Iterator[str]:
    """Success by map and share; in brackets, right whatever the status, then pairs."""
    yield "| map | " + " | ".join(f"{low:g}–{high:g}" for low, high in BINS) + " |"
    yield "|---" * (len(BINS) + 1) + "|"
    places = list(dict.fromkeys(row["map"] for row in values["maps"]))
    groups = [(place, [row for row in values["maps"] if row["map"] == place]) for place in places]
    for name, rows in [*groups, ("**all**", values["totals"])]:
        yield f"| {name} | " + " | ".join(map(_cell, rows)) + " |"
    yield ""
    wrong = " / ".join(f"{row['called_success_but_wrong']} of {row['pairs']}" for row in values["totals"])
    yield f"Called a success with a wrong pose: {wrong}."


def beside(results: Mapping[str, dict[str, Any]]) -> list[str]:
    """Right poses of several methods on the same pairs as a Markdown table, a row a map; other pairs are refused."""
    if len({values["fingerprint"] for values in results.values()}) > 1:
        raise ValueError(f"{' and '.join(results)} were measured on other pairs than one another")
    heads = [f"{low:g}–{high:g}" for low, high in BINS]
    lines = [f"| map | pairs | {' | '.join(heads)} |", "|:---" + "|---:" * (len(BINS) + 1) + "|"]
    first = next(iter(results.values()))
    for name in [*dict.fromkeys(row["map"] for row in first["maps"]), None]:
        groups = [_rows_of(values, name) for values in results.values()]
        cells = [" / ".join(_right(row) for row in rows) for rows in zip(*groups, strict=True)]
        counts = dict.fromkeys(str(sum(row["pairs"] for row in rows)) for rows in groups)  # one, if it is the same
        lines.append(f"| {name or '**all**'} | {' / '.join(counts)} | {' | '.join(cells)} |")
    return lines


def _rows_of(values: dict[str, Any], name: str | None) -> list[dict[str, Any]]:
    return values["totals"] if name is None else [row for row in values["maps"] if row["map"] == name]


def _right(row: dict[str, Any]) -> str:
    return f"{row['right_whatever_the_status']:.0%}" if row["pairs"] else "–"


def readme_rows(values: dict[str, Any], method: str, *, asked: bool) -> list[dict[str, str]]:
    """One row for each share, of all maps."""
    return [
        {
            "what": f"crops of real maps, {low:.0%} to {high:.0%} of lines in common, {method}, {row['pairs']} pairs",
            "asked": f"≥ {least:.0%}" if asked else "",
            "measured": f"{row['right_whatever_the_status']:.1%} right; {row['success']:.1%} right and called so",
        }
        for (low, high), least, row in zip(BINS, ASKED, values["totals"], strict=True)
    ]


def _cell(row: dict[str, Any]) -> str:
    if not row["pairs"]:
        return "–"
    return f"{row['success']:.0%} ({row['right_whatever_the_status']:.0%}, {row['pairs']})"


def _share(flags: Sequence[bool]) -> float:
    return sum(flags) / max(1, len(flags))
