"""Which of our Python files a module depends on, and a hash of what they say.

Files are parsed, never imported, and need nothing but the standard library. Comments, docstrings, formatting and code
for type checkers do not count, so the hash changes only with the code that runs. It is the same on every Python. With a
module that has C of the same name beside it counts all C of its folder.

A package's ``__init__`` counts only where a name that it defines itself is used: ``from plueckernet.geometry import
Pose`` is a dependence on ``geometry/pose.py``. This holds as long as importing a package has no side effect.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from plueckernet.errors import FormatError, InputError

# These describe numbers and do not change them.
_NOT_COUNTED = ("plueckernet.version", "plueckernet.evaluation.provenance", "plueckernet.evaluation.sources")
_SKIPPED_FIELDS = ("ctx", "kind", "type_comment", "type_ignores", "type_params")  # not on every Python, or implied


@dataclass(frozen=True)
class SourceTree:
    """Where the packages lie whose files count."""

    packages: Mapping[str, Path]  # name of a top-level package -> its folder

    def path(self, module: str) -> Path | None:
        """The file of a module, or a package's ``__init__``; None for a name that is neither."""
        top, *rest = module.split(".")
        if top not in self.packages:
            return None
        folder = self.packages[top].joinpath(*rest)
        paths = (folder / "__init__.py", folder.with_name(f"{folder.name}.py"))
        return next((path for path in paths if path.is_file()), None)

    def relative(self, path: Path) -> str:
        """The name of a file, from its package on: the same wherever the package is installed."""
        for name, folder in self.packages.items():
            if path.resolve().is_relative_to(folder.resolve()):
                return f"{name}/{path.resolve().relative_to(folder.resolve()).as_posix()}"
        return path.name


@cache
def project_tree() -> SourceTree:
    """This package and, in a checkout, ``benchmarks``."""
    package, root = Path(__file__).parents[1], checkout()
    folders = {"plueckernet": package} | ({} if root is None else {"benchmarks": root / "benchmarks"})
    return SourceTree({name: folder for name, folder in folders.items() if folder.is_dir()})


def checkout() -> Path | None:
    """The root of the checkout that this package is used from; None for an installed one."""
    package = Path(__file__).parents[1]
    root = package.parents[1]
    return root if package == root / "src" / "plueckernet" else None


def sources_of(*roots: str, tree: SourceTree | None = None) -> tuple[Path, ...]:
    """The project's own files that modules depend on, with their own; see :func:`source_hash` for ``roots``."""
    tree = tree or project_tree()
    modules = dict.fromkeys(item.module for item in _closure(roots, tree).parts)
    return tuple(path for path in map(tree.path, modules) if path is not None)


def source_hash(*roots: str, extra_files: Iterable[Path] = (), tree: SourceTree | None = None) -> str:
    """16 hexadecimal digits for the code that modules depend on and the bytes of other files.

    Args:
        roots: Names of modules, as in ``"benchmarks.speed"``. Of a module that is named with a definition in it, as in
            ``"plueckernet.evaluation.methods:published_method"``, only the definitions count that are used.
        extra_files: Files that are no Python.
        tree: Where the modules are.

    Raises:
        InputError: There is no such module.
    """
    tree = tree or project_tree()
    closure = _closure(roots, tree)
    lines = [f"{item.module}:{item.name} {_outline_of(item, tree).digest}" for item in closure.parts]
    lines += closure.redirections
    lines += [f"{tree.relative(path)} {digest}" for path, digest in _compiled_code(closure, tree)]
    lines += [f"{tree.relative(path)} {file_hash(path)}" for path in extra_files]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]


def file_hash(path: Path) -> str:
    """16 hexadecimal digits for the bytes of a file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def _compiled_code(closure: _Closure, tree: SourceTree) -> Iterator[tuple[Path, str]]:
    """All C of the folders of modules that have some, with a hash of each file without comments and layout."""
    paths = filter(None, (tree.path(item.module) for item in closure.parts))
    folders = {path.parent for path in paths if path.with_suffix(".c").is_file()}
    for path in sorted(path for folder in folders for path in (*folder.glob("*.c"), *folder.glob("*.h"))):
        yield path, hashlib.sha256(_code_of_c(path.read_text("utf-8")).encode()).hexdigest()


def _code_of_c(text: str) -> str:
    return " ".join(re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL).split())


# From modules to what they depend on


@dataclass(frozen=True)
class _Part:
    """A module, or one of its definitions with those in the same module that it uses."""

    module: str
    name: str = ""  # of the definition


@dataclass(frozen=True)
class _Closure:
    parts: tuple[_Part, ...]
    redirections: frozenset[str]  # "package.name = module.name" for names that packages pass on


@dataclass(frozen=True)
class _Outline:
    """What matters of one file."""

    digest: str  # of the code
    references: frozenset[str]  # dotted names of modules and of names in them; other projects' too
    entries: frozenset[str]  # modules that are run or imported by their name in a string
    passed_on: Mapping[str, str]  # names that can be imported from here -> dotted names of where they come from


def _closure(roots: Iterable[str], tree: SourceTree) -> _Closure:
    named = [_Part(*root.split(":")) for root in roots]
    narrowed = {item.module for item in named if item.name}
    waiting = [item for root in named for item in ([root] if root.name else _entry(root.module, tree))]
    parts, followed, redirections = dict.fromkeys(waiting), set[str](), set[str]()
    while waiting:
        outline = _outline_of(waiting.pop(), tree)
        needed = [item for entry in outline.entries if tree.path(entry) for item in _entry(entry, tree)]
        homes = [_home(reference, tree, redirections) for reference in outline.references - followed]
        needed += [home if home.module in narrowed else _Part(home.module) for home in homes if home is not None]
        followed |= outline.references
        new = dict.fromkeys(item for item in needed if item not in parts and item.module not in _NOT_COUNTED)
        parts.update(new)
        waiting += new
    return _Closure(tuple(parts), frozenset(redirections))


def _entry(module: str, tree: SourceTree) -> list[_Part]:
    """What ``python -m`` runs."""
    return [_Part(module)] + ([_Part(f"{module}.__main__")] if tree.path(f"{module}.__main__") else [])


def _home(reference: str, tree: SourceTree, redirections: set[str]) -> _Part | None:
    """The definition that a dotted name leads to; None if it is not ours or is nothing but a package."""
    if reference.partition(".")[0] not in tree.packages:
        return None
    module, names = _split(reference, tree)
    path = tree.path(module)
    if path is None or path.name != "__init__.py":
        return _Part(module, *names[:1]) if path else None
    if not names:
        return None
    origin = _outline_of(_Part(module), tree).passed_on.get(names[0], "")
    if origin in ("", module, f"{module}.{names[0]}"):
        return _Part(module, names[0])
    redirections.add(f"{module}.{names[0]} = {origin}")
    return _home(".".join([origin, *names[1:]]), tree, redirections)


def _split(reference: str, tree: SourceTree) -> tuple[str, list[str]]:
    """The longest beginning that is a module, and the names after it."""
    module, *names = reference.split(".")
    while names and tree.path(f"{module}.{names[0]}") is not None:
        module = f"{module}.{names.pop(0)}"
    return module, names


# From files to outlines


def _outline_of(item: _Part, tree: SourceTree) -> _Outline:
    path = tree.path(item.module)
    if path is None:
        raise InputError(f"no module {item.module!r} among the sources of {', '.join(tree.packages)}")
    try:
        return _outline(path.read_bytes(), item)
    except SyntaxError as error:
        raise FormatError(path, f"no Python: {error.msg}", error.lineno) from error


@cache
def _outline(content: bytes, item: _Part) -> _Outline:
    parsed = ast.parse(content)
    if item.name:
        parsed.body = _needed(list(_effective(parsed.body)), item.name)
    words: list[str] = []
    nodes: list[ast.AST] = []
    _write(parsed, words, nodes)
    bindings = frozenset(_bindings(nodes))
    return _Outline(
        digest=hashlib.sha256("".join(words).encode()).hexdigest(),
        references=frozenset([*(origin for _, origin in bindings), *_references(nodes, bindings)]),
        entries=frozenset(_named_in_strings(nodes)),
        passed_on=dict(_bindings(_effective(parsed.body))) | _lazy_names(parsed, item.module),
    )


def _write(node: ast.AST, words: list[str], nodes: list[ast.AST]) -> None:
    """Append the code as text and its nodes; positions and empty fields, which differ between Pythons, do not count."""
    nodes.append(node)
    words.append(f"{type(node).__name__}(")
    for field in node._fields:
        value = getattr(node, field, None)
        if value is None or field in _SKIPPED_FIELDS:
            continue
        if isinstance(value, ast.AST):
            words.append(f"{field}=")
            _write(value, words, nodes)
        elif not isinstance(value, list):
            words.append(f"{field}={value!a},")
        elif value:
            words.append(f"{field}=[")
            for item in _texts(value) if isinstance(node, ast.JoinedStr) else _effective(value):
                if isinstance(item, ast.AST):
                    _write(item, words, nodes)
                else:
                    words.append(f"{item!a},")
            words.append("]")
    words.append(")")


def _effective(items: Iterable[Any]) -> Iterator[Any]:
    """The elements without docstrings, other constants that are statements, and what only type checkers read."""
    for item in items:
        if isinstance(item, ast.If) and _last_name(item.test) == "TYPE_CHECKING":
            yield from _effective(item.orelse)
        elif not (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)):
            yield item


def _texts(items: Iterable[ast.expr]) -> Iterator[ast.expr]:
    """The parts of an f-string without empty ones, which only some Pythons have."""
    return (item for item in items if _text(item) != "")


def _bindings(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """Names that imports bind, with the dotted names that they stand for."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.partition(".")[0]
                yield alias.asname or name, name
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise InputError(f"a relative import of {node.module or 'a package'} cannot be followed")
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _references(nodes: Iterable[ast.AST], bindings: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Modules that are imported, and ``package.module.name`` where the first name was."""
    origins: dict[str, list[str]] = {}  # functions of a file may bind one name to several things
    for name, origin in bindings:
        origins.setdefault(name, []).append(origin)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute):
            names: list[str] = []
            value: ast.expr = node
            while isinstance(value, ast.Attribute):
                names.append(value.attr)
                value = value.value
            if isinstance(value, ast.Name):
                yield from (".".join([origin, *reversed(names)]) for origin in origins.get(value.id, ()))


def _named_in_strings(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Modules in ``import_module("a.b")`` and in command lines ``[…, "-m", "a.b", …]``."""
    for node in nodes:
        if isinstance(node, ast.Call) and _last_name(node.func) == "import_module":
            yield from (text for text in map(_text, node.args[:1]) if text)
        elif isinstance(node, ast.List | ast.Tuple):
            texts = [_text(element) for element in node.elts]
            yield from (text for option, text in pairwise(texts) if option == "-m" and text)


def _lazy_names(parsed: ast.Module, module: str) -> dict[str, str]:
    """The table, name to submodule, of a package that loads its names in ``__getattr__``."""
    if not any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in parsed.body):
        return {}
    names = {}
    for node in parsed.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                name, home = _text(key), _text(value)
                if name and home:
                    names[name] = f"{module}.{home}.{name}"
    return names


def _needed(body: list[ast.stmt], name: str) -> list[ast.stmt]:
    """The statements of a module that a name of it depends on, and those that define no name; all if it has no such."""
    statements = [item for statement in body for item in _single(statement)]
    defines = {statement: _defined(statement) for statement in statements}
    if name not in {defined for names in defines.values() for defined in names}:
        return body
    kept: set[ast.stmt] = set()
    used = {name}
    while new := {item for item in statements if item not in kept and (not defines[item] or defines[item] & used)}:
        kept |= new
        used |= {word for item in new for word in _used(item)}
    return [item for item in statements if item in kept]


def _single(statement: ast.stmt) -> Iterator[ast.stmt]:
    """An import of several names as one of each."""
    if isinstance(statement, ast.Import):
        yield from (ast.Import([alias]) for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom):
        for alias in statement.names:
            yield ast.ImportFrom(statement.module, [alias], statement.level)
    else:
        yield statement


def _defined(statement: ast.stmt) -> frozenset[str]:
    """Names that a simple statement, function or class defines."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return frozenset([statement.name])
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return frozenset(name for name, _ in _bindings([statement]))
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return frozenset(node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
    return frozenset()


def _used(node: ast.AST) -> Iterator[str]:
    """Names in a statement, but for those in annotations, which do nothing."""
    if isinstance(node, ast.Name):
        yield node.id
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _used(child)


def _last_name(node: ast.expr) -> str | None:
    """``b`` of ``a.b`` and of ``b``."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
