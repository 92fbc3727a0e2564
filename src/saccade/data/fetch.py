"""Download the data sets in the catalogue over https, with a size limit, and check them before they are used."""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from saccade.data.catalogue import CATALOGUE, DataFile, DataSet, check, entry_of, install, make_folder
from saccade.errors import FileError, OptionError, StorageError

__all__ = ["ReportDownload", "fetch"]

#: Called with (file name, bytes so far, total bytes or None if the server does not say).
ReportDownload = Callable[[str, int, int | None], None]

_CHUNK = 1 << 16
_TIMEOUT_SECONDS = 30.0


def fetch(
    name: str,
    to_folder: str | Path,
    *,
    mirror: str | None = None,
    progress: ReportDownload | None = None,
    catalogue: Mapping[str, DataSet] = CATALOGUE,
) -> Path:
    """Download the files of a data set into `to_folder`/`name`, except those that are already there.

    `mirror` is another http or https address with the same file names. The checksums make a mirror as safe as the
    original.
    """
    entry = entry_of(name, catalogue)
    urls = [_url(entry, file, mirror) for file in entry.files]
    folder = Path(to_folder) / name
    for file, url in zip(entry.files, urls, strict=True):
        if (folder / file.name).exists():
            check(folder / file.name, file, f"The existing file {folder / file.name}")
            continue
        part = folder / f".{file.name}.{os.getpid()}.download"  # hidden until `install` has checked it
        make_folder(folder)
        try:
            _download(url, file, part, progress)
            install(part, file, folder)
        finally:
            part.unlink(missing_ok=True)
    return folder


def _url(entry: DataSet, file: DataFile, mirror: str | None) -> str:
    if mirror is not None:
        if not mirror.startswith(("http://", "https://")):
            raise OptionError(f"The address of a mirror must start with http:// or https://, not {mirror!r}.")
        name = file.name if file.url is None else file.url.rsplit("/", 1)[-1]
        return f"{mirror.rstrip('/')}/{name}"
    if file.url is None:
        raise FileError(
            f"{entry.name} cannot be downloaded automatically; get it from {entry.source}, then run "
            f"`saccade data {entry.name} --from FOLDER`."
        )
    return file.url


def _download(url: str, file: DataFile, part: Path, progress: ReportDownload | None) -> None:
    most = file.size + file.size // 100 + _CHUNK  # compression can make a file slightly larger
    done = 0
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response, part.open("wb") as output:
            length = response.headers.get("Content-Length", "")
            total = int(length) if length.isdecimal() else None
            while chunk := response.read(_CHUNK):
                done += len(chunk)
                if done > most:
                    raise FileError(f"{url} is larger than the {file.size:,} bytes that {file.name} should have.")
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
