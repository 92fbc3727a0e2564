"""Download a data set from the catalogue: over https, with a size limit, and checked before it gets its final name."""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from saccade.data.catalogue import CATALOGUE, DataFile, DataSet, check, entry_of, install, make_folder
from saccade.errors import FileError, OptionError, StorageError

__all__ = ["Progress", "fetch"]

Progress = Callable[[str, int, int | None], None]
"""Called with (file name, bytes so far, total bytes or None if the server does not say)."""

_CHUNK = 1 << 16
_TIMEOUT_SECONDS = 30.0


def fetch(
    name: str,
    to_folder: str | Path,
    *,
    mirror: str | None = None,
    progress: Progress | None = None,
    catalogue: Mapping[str, DataSet] = CATALOGUE,
) -> Path:
    """Download the files of a set into `to_folder`/`name`, except those already there with the right content.

    `mirror` is another http or https address with the same file names; the checksums make it as safe as the original.
    """
    entry = entry_of(name, catalogue)
    urls = [_url(entry, file, mirror) for file in entry.files]
    folder = Path(to_folder) / name
    for file, url in zip(entry.files, urls, strict=True):
        if (folder / file.name).exists():
            check(folder / file.name, file, f"{folder / file.name} is in the way: it")
        else:
            _download(url, file, folder, progress)
    return folder


def _url(entry: DataSet, file: DataFile, mirror: str | None) -> str:
    if mirror is not None:
        if not mirror.startswith(("http://", "https://")):
            raise OptionError(f"The mirror is {mirror!r}; it must start with http:// or https://.")
        name = file.name if file.url is None else file.url.rsplit("/", 1)[-1]
        return f"{mirror.rstrip('/')}/{name}"
    if file.url is None:
        raise FileError(
            f"{entry.name} cannot be downloaded automatically; get it from {entry.source}, then run "
            f"`saccade data {entry.name} --from FOLDER`."
        )
    return file.url


def _download(url: str, file: DataFile, folder: Path, progress: Progress | None) -> None:
    """Download one file to a hidden file, which `install` then checks, decompresses and renames."""
    part = folder / f".{file.name}.{os.getpid()}.download"
    make_folder(folder)
    try:
        _receive(url, file, part, progress)
        install(part, file, folder)
    finally:
        part.unlink(missing_ok=True)


def _receive(url: str, file: DataFile, part: Path, progress: Progress | None) -> None:
    most = file.size + file.size // 100 + _CHUNK  # compression makes incompressible data slightly larger
    done = 0
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response, part.open("wb") as output:
            length = response.headers.get("Content-Length", "")
            total = int(length) if length.isdecimal() else None
            while chunk := response.read(_CHUNK):
                done += len(chunk)
                if done > most:
                    raise FileError(f"{url} is larger than the {file.size:,} bytes of {file.name}.")
                output.write(chunk)
                if progress is not None:
                    progress(file.name, done, total)
    except urllib.error.HTTPError as error:
        with error:
            raise FileError(f"{url} cannot be downloaded: {error.code} {error.reason}.") from error
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
        raise FileError(f"{url} cannot be downloaded: {getattr(error, 'reason', None) or error}.") from error
    except OSError as error:
        raise StorageError(f"{part} cannot be written: {error.strerror or error}.") from error
    if total is not None and done < total:
        raise FileError(f"{url} was cut off after {done:,} of {total:,} bytes; try again.")
