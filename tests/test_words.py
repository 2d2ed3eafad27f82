"""The vocabulary of the project: words of the field, one meaning per name. The old words must not come back.

`CONTRIBUTING.md` gives the words that replace them. Names are checked in the syntax tree, sentences line by line.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src", "tests", "benchmarks", "docs", "examples")
PAGES = ("README.md", "CONTRIBUTING.md")  # CHANGELOG.md names the old words to describe their removal
SUFFIXES = {".py", ".md", ".toml", ".html", ".js"}

# A variable is named by the noun it holds: pose, candidate, result, pair, block, half_length, max_distance.
NAMES = {"alone", "beyond", "both", "far", "found", "held", "one", "part", "reach", "rival", "slack", "usual"}

# A constant says what is measured.
CONSTANTS = re.compile(r"_(ALONE|BEYOND|FAR|FEW|HELD|LONG|MANY|NEAR|REACH|RIVAL|SLACK|STILL)")

SENTENCES = {
    "vouched for": r"\bvouch(es|ed)?\b",
    "believed": r"\bbelieved\b|\bdeserves? belief\b",
    "borne out": r"\bborne[ _]out\b|\bof those that should\b",
    "rival": r"\brivals?\b",
    "outdone": r"\boutdone\b",
    "hopeless": r"\bhopeless\b",
    "promising": r"\bpromising\b",
    "slack": r"\bslack\b",
    "processor": r"(?<!platform\.)\bprocessors?\b",
    "lie on each other": r"\b(lay|lays|laid|laying|lie|lies|lying) on (each other|one another)\b|\bcomes? to lie\b",
    "from where on": r"\bfrom where on\b",
    "as they came": r"\bas (they|it) (came|comes?)\b",
    "tolerance of lines": r"\bTolerance\b|\b(position|angle|suggested)_tolerance\b|\bnoise_at_origin\b",
}
PATTERNS = {word: re.compile(pattern, re.IGNORECASE) for word, pattern in SENTENCES.items()}
# Only the class is an old word; `tolerance` may be that of a numerical comparison.
PATTERNS["tolerance of lines"] = re.compile(SENTENCES["tolerance of lines"])

TYPE_NAME = re.compile(r"[A-Z]+[a-z]\w*")

# The first schema of result files has the old words as keys, and these files have to name them.
SCHEMA_1 = {"borne out", "held", "rival", "tolerance of lines"}
ALLOWED = {
    "src/plueckernet/result.py": SCHEMA_1,
    "tests/test_result.py": SCHEMA_1,
    "docs/result.md": SCHEMA_1,
}


def checked_files() -> list[str]:
    """Paths from the root of all files with prose or code, except this one."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    paths += [ROOT / page for page in PAGES]
    names = {path.relative_to(ROOT).as_posix() for path in paths if path.is_file()}
    return sorted(names - {Path(__file__).relative_to(ROOT).as_posix()})


def old_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of every old word that is assigned, defined or taken as an argument."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler | ast.MatchAs):
            name = node.name or ""
        elif isinstance(node, ast.alias):
            name = node.asname or ""
        else:
            continue
        if name in NAMES or CONSTANTS.fullmatch(name):
            yield node.lineno, name


def old_sentences(text: str) -> Iterator[tuple[int, str]]:
    """Line and label of every old word in code, comments and prose; a phrase may continue on the next line."""
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        rest = re.sub(r"^[\s#]+", " ", lines[number]) if number < len(lines) else ""
        for word, pattern in PATTERNS.items():
            if any(match.start() < len(line) for match in pattern.finditer(line.rstrip() + rest)):
                yield number, word


def old_words(text: str, suffix: str) -> list[tuple[int, str]]:
    """All old words of a file, in the order of its lines."""
    names = old_names(ast.parse(text)) if suffix == ".py" else ()
    return sorted({*names, *old_sentences(text)})


@pytest.mark.parametrize("name", checked_files())
def test_old_words_do_not_come_back(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    words = [(line, word) for line, word in old_words(text, Path(name).suffix) if word not in ALLOWED.get(name, ())]
    assert not words, "\n".join(f"{name}:{line}: {word}" for line, word in words)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("one = 1", "one"),
        ("for found in x: pass", "found"),
        ("[part for part in x]", "part"),
        ("def f(*, both): pass", "both"),
        ("self.reach = 3", "reach"),
        ("with open(x) as part: pass", "part"),
        ("_FAR = 2.0", "_FAR"),
        ("# on a processor", "processor"),
        ("# lines that come\n# to lie", "lie on each other"),
        ("settings.angle_tolerance", "tolerance of lines"),
    ],
)
def test_each_kind_of_word_is_recognised(text, word):
    assert [label for _, label in old_words(text, ".py")] == [word]


@pytest.mark.parametrize(
    "text",
    [
        "ones = one_pair(both=1)",
        "preprocessor",
        "platform.processor()",
        "# the one pose that was found",
        "np.allclose(a, b, tolerance)",
    ],
)
def test_other_uses_are_allowed(text):
    assert old_words(text, ".py") == []


def public_types() -> Iterator[tuple[str, str]]:
    """Name and module of every public class and type alias of the package."""
    for path in sorted((ROOT / "src" / "plueckernet").rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [node.name] if isinstance(node, ast.ClassDef) else []
            if isinstance(node, ast.Assign):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            yield from ((name, path.relative_to(ROOT).as_posix()) for name in names if TYPE_NAME.fullmatch(name))


def test_every_public_type_is_defined_once():
    modules: dict[str, list[str]] = {}
    for name, module in public_types():
        modules.setdefault(name, []).append(module)
    assert not {name: defined for name, defined in modules.items() if len(defined) > 1}
