"""What mkdocs does not do by itself: pages made from the examples, and names in docstrings."""

import ast
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

EXAMPLES = Path(__file__).parents[1] / "examples"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """A page for each example: its text, its code, what it prints and the picture it draws."""
    for path in sorted(EXAMPLES.glob("*.py")):
        code = path.read_text(encoding="utf-8")
        printed, pictures = _run(path.name, code)
        page = [_as_text(path.name, code), f"It prints\n\n```text\n{printed}```\n"]
        for name, content in pictures.items():
            page.append(f"![{name}, drawn by this example]({path.stem}-{name})\n")
            files.append(File.generated(config, f"examples/{path.stem}-{name}", content=content))
        files.append(File.generated(config, f"examples/{path.stem}.md", content="\n".join(page)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Links to examples lead to their pages."""
    up = "../" * page.file.src_uri.count("/")
    return re.sub(r"\]\((?:\.\./)+examples/(\w+)\.py\)", rf"]({up}examples/\1.md)", markdown)


def on_page_content(html: str, **_: object) -> str:
    """Docstrings name things as Sphinx does (:func:`register`); the site shows the name alone."""
    return re.sub(r":(?:func|class|meth|mod|attr):(?=<code>)", "", html)


@cache  # while the site is served, an example is run again only when it has changed
def _run(name: str, code: str) -> tuple[str, dict[str, bytes]]:
    """What an example prints, and the pictures that it leaves behind."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / name
        script.write_text(code, encoding="utf-8")
        done = subprocess.run([sys.executable, name], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"examples/{name} does not run:\n{done.stderr}")
        return done.stdout, {path.name: path.read_bytes() for path in sorted(Path(folder).glob("*.png"))}


def _as_text(name: str, code: str) -> str:
    """The docstring and the comments between blank lines as text, the rest as code."""
    tree = ast.parse(code)
    title, _, text = (ast.get_docstring(tree) or "").partition("\n")
    parts = [f"# {title.rstrip('.')}\n{text}\n\n`examples/{name}`:"]
    body = "\n".join(code.splitlines()[tree.body[0].end_lineno :])
    for paragraph in re.split(r"(?m)((?:(?<=\n\n)|\A)(?:^# .*\n)+)", body.strip() + "\n"):
        if paragraph.startswith("# "):
            parts.append(re.sub(r"(?m)^# ", "", paragraph).strip())
        elif paragraph.strip():
            parts.append(f"```py\n{paragraph.strip()}\n```")
    return "\n\n".join(parts) + "\n"
