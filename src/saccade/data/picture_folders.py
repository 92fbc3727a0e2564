"""Find the picture files in a folder, or in its subfolders: one for each class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from saccade.data.lines import unreadable
from saccade.errors import FileError, counted

__all__ = ["PICTURES", "class_folders", "note_left_out", "picture_files", "pictures_within"]

#: Suffixes of files that are read as pictures.
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".pgm", ".ppm", ".tif", ".tiff")


def class_folders(path: Path) -> list[Path]:
    """Return the subfolders of a folder, sorted by name: one for each class; an error if they are parts of the data."""
    found = sorted(entry for entry in _entries(path) if entry.is_dir() and not entry.name.startswith("."))
    if found and all(
        any(map(Path.is_dir, _entries(one))) and not any(map(_is_picture, _entries(one))) for one in found
    ):
        parts = " ".join(f"--data {one}" for one in sorted(found, key=lambda one: "train" not in one.name.lower()))
        raise FileError(
            f"{path} has folders of folders, not one folder of pictures per class; give each part: {parts}."
        )
    return found


def picture_files(folder: Path) -> list[Path]:
    """Return the picture files in a folder, sorted by name; an error if there are none."""
    pictures = sorted(filter(_is_picture, _entries(folder)))
    if not pictures:
        raise FileError(f"{folder} contains no pictures; expected files that end in {', '.join(PICTURES)}.")
    return pictures


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in PICTURES


def pictures_within(folder: Path) -> list[Path]:
    """Return the picture files in a folder or, if it has none, in its subfolders."""
    has_own = any(map(_is_picture, _entries(folder)))
    folders = [] if has_own else class_folders(folder)
    return [file for one in folders or [folder] for file in picture_files(one)]


def note_left_out(path: Path, read: Sequence[Path]) -> list[str]:
    """Return a note on the files in a folder that were not read: those with other suffixes, and pictures in folders of
    another depth. Hidden files are not counted."""
    known = set(read)
    files = (file for file in path.rglob("*") if file.is_file() and file not in known)
    left = sorted(file for file in files if not any(part.startswith(".") for part in file.relative_to(path).parts))
    return [f"left out {counted(len(left), 'other file')} in {path}, the first: {left[0]}"] if left else []


def _entries(path: Path) -> list[Path]:
    try:
        return list(path.iterdir())
    except OSError as error:
        raise unreadable(path, error) from error
