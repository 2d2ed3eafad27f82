"""`plueckernet apply`: files moved by the pose of a registration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from plueckernet.cli.options import QuietOption
from plueckernet.cli.starting import quick_imports


def apply(
    pose: Annotated[Path, typer.Argument(metavar="RESULT", help="A result of `register`, or a 4x4 matrix as text.")],
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Lines, clouds, meshes, COLMAP models, trajectories.")
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the moved files, which keep their names.")],
    inverse: Annotated[
        bool, typer.Option("--inverse", help="Move files of the target into the frame of the source.")
    ] = False,
    from_format: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="FORMAT", help="Format of the files: obj, las, text, tum, …", show_default="by content"
        ),
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Move files of the source into the frame of the target.

    Everything else in the files stays as it is: colours, normals (which turn), faces, observations, time stamps.
    Formats: all line formats that can be written; LAS, LAZ, E57, PLY, PCD, NPY, KITTI's .bin and text clouds; OBJ,
    STL, GLB and OFF meshes; COLMAP models, text or binary, with the lines of LIMAP 2; TUM and KITTI trajectories. Also
    writes the pose as a 4x4 matrix, as CloudCompare takes it.
    """
    with quick_imports():
        from plueckernet.cli.poses import read_pose
        from plueckernet.cli.progress import slow_bar
        from plueckernet.io.matrices import write_matrix
        from plueckernet.moving import move_file
        from plueckernet.moving.files import check_format

    check_format(from_format)
    target_T_source = read_pose(pose)
    motion = target_T_source.inverse() if inverse else target_T_source
    _check(files, out)
    for number, path in enumerate(files):
        with slow_bar(f"moving {path.name}") as progress:
            progress(number / len(files))
            notes = move_file(path, out / path.name, motion, from_format)
        for note in notes:
            typer.echo(f"note: {note}", err=True)
    matrix = out / ("source_T_target.txt" if inverse else "target_T_source.txt")
    write_matrix(matrix, motion)
    if not quiet:
        names = ", ".join(str(out / path.name) for path in files)
        typer.echo(f"written: {names}; the pose as a matrix: {matrix}", err=True)


def _check(files: list[Path], out: Path) -> None:
    """Raise before the work starts if an output would collide with another or with an input."""
    from plueckernet.errors import FormatError, InputError
    from plueckernet.io.files import make_folder

    names = [path.name for path in files]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"two files are named {twice}; apply the pose to them one after the other")
    for path in files:
        if not path.exists():
            raise FormatError(path, "no such file or directory")
        if (out / path.name).resolve() == path.resolve():
            raise InputError(f"{path}: the moved file would replace its own input; choose another folder")
    make_folder(out)
