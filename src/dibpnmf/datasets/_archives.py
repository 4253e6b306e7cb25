"""Where a data set's archive comes from, and how its files are read.

An archive is taken from the folder that the environment variable DIBPNMF_DATA names, or
else from the user's cache, or else from its publisher. Nothing is ever unpacked to disk: the
files wanted are read into memory, from archives that hold plain files only.
"""

from __future__ import annotations

import gzip
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

DATA_VARIABLE = "DIBPNMF_DATA"

# What an archive may unpack to. The largest, CiteSeer, holds 25 MB.
MAX_BYTES = 128 * 2**20

# What the readers of the standard library raise on damaged archives held in memory.
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)

T = TypeVar("T")
Parser = Callable[[dict[str, bytes]], T]


class BadArchiveError(ValueError):
    """An archive that is damaged, unsafe, or does not hold the data set it should."""


@dataclass(frozen=True)
class Archive:
    """One data set as its publisher packs it.

    Attributes
    ----------
    url : str
        Where the publisher offers it. The last part is the file's name.
    """

    url: str

    @property
    def filename(self) -> str:
        """Name of the file in a folder or in the cache."""
        return self.url.rpartition("/")[2]

    def load(self, wanted: Set[str], parse: Parser[T]) -> T:
        """Find the archive, read some of its files, and parse them.

        Parameters
        ----------
        wanted : set of str
            Paths of the files inside the archive.
        parse : callable
            Makes the data set from a dict of path to content, and raises `BadArchiveError`
            where the content is not as published. What fails it is not kept in the cache.

        Returns
        -------
        object
            What `parse` returned.

        Raises
        ------
        FileNotFoundError
            If DIBPNMF_DATA names a folder without the archive.
        BadArchiveError
            If the archive is not what it should be.
        OSError
            If it cannot be downloaded.
        """

        def read(path: Path) -> T:
            return parse(read_members(path, wanted))

        folder = os.environ.get(DATA_VARIABLE)
        if folder:
            return self._from_folder(Path(folder), read)
        return self._from_cache(read)

    def _from_folder(self, folder: Path, read: Callable[[Path], T]) -> T:
        path = folder / self.filename
        if not path.is_file():
            raise FileNotFoundError(
                f"{DATA_VARIABLE} names the folder {folder}, which has no file "
                f"{self.filename}; put {self.url} there, or unset {DATA_VARIABLE} to download it"
            )
        try:
            return read(path)
        except BadArchiveError as error:
            raise BadArchiveError(
                f"{path}: {error}; replace it by a fresh copy of {self.url}"
            ) from error

    def _from_cache(self, read: Callable[[Path], T]) -> T:
        import pooch

        path = Path(pooch.os_cache("dibpnmf")) / self.filename
        if path.is_file():
            try:
                return read(path)
            except BadArchiveError:
                path.unlink(missing_ok=True)  # gone bad since it was checked: fetch it again
        try:
            return self._download(path, read)
        except BadArchiveError as error:
            raise BadArchiveError(
                f"what {self.url} sent is not usable: {error}. It was not kept. "
                f"Try again later, or {self._by_hand()}"
            ) from error
        except OSError as error:
            raise OSError(
                f"cannot download {self.url} to {path}: {error}. Nothing was kept. "
                f"Check the connection and try again, or {self._by_hand()}"
            ) from error

    def _download(self, path: Path, read: Callable[[Path], T]) -> T:
        """Fetch into a temporary folder, check by parsing, and only then move into place."""
        import pooch

        path.parent.mkdir(parents=True, exist_ok=True)
        # Beside its final place, so that the move is a rename within one file system.
        with TemporaryDirectory(prefix=".download-", dir=path.parent) as scratch:
            part = Path(scratch) / self.filename
            pooch.HTTPDownloader()(self.url, str(part), None)
            data = read(part)
            part.replace(path)
        return data

    def _by_hand(self) -> str:
        return (
            f"save the file as {self.filename} in a folder of your own and "
            f"set {DATA_VARIABLE} to that folder"
        )


def read_members(path: Path, wanted: Set[str]) -> dict[str, bytes]:
    """Read some files of a tar or zip archive into memory.

    Parameters
    ----------
    path : Path
        The archive; a name that ends in .zip is a zip file, any other a tar file.
    wanted : set of str
        Paths of the files inside it.

    Returns
    -------
    dict
        The content of each file wanted.

    Raises
    ------
    BadArchiveError
        If the archive is damaged, lacks a file, unpacks to more than 128 MB, or holds a link,
        a device or a path that leads out of it.
    """
    if path.stat().st_size > MAX_BYTES:
        raise _too_large(path.stat().st_size)
    content = path.read_bytes()
    members = _zip_members if path.suffix == ".zip" else _tar_members
    try:
        found = _select(members(content), wanted)
    except BadArchiveError:
        raise
    except _DAMAGE as error:
        raise BadArchiveError(
            f"it is cut short or not an archive ({len(content)} bytes, "
            f"beginning {content[:16]!r}; {error})"
        ) from error
    if missing := sorted(wanted - found.keys()):
        raise BadArchiveError(f"it has no file {', '.join(missing)}")
    return found


class _Member(NamedTuple):
    name: str
    size: int
    plain: bool  # a regular file or a folder, nothing else
    read: Callable[[], bytes]


def _select(members: Iterator[_Member], wanted: Set[str]) -> dict[str, bytes]:
    """Read the members wanted, and check them all."""
    found = {}
    total = 0
    for member in members:
        name = _safe_name(member)
        total += member.size
        if member.size < 0 or total > MAX_BYTES:
            raise _too_large(total)
        if name in wanted:
            found[name] = member.read()
    return found


def _tar_members(content: bytes) -> Iterator[_Member]:
    with tarfile.open(fileobj=_unzipped(content), mode="r:") as archive:
        for info in archive:

            def read(info: tarfile.TarInfo = info) -> bytes:
                stream = archive.extractfile(info)
                return stream.read() if stream else b""

            yield _Member(info.name, info.size, info.isreg() or info.isdir(), read)


def _unzipped(content: bytes) -> BytesIO:
    """Unpack a tar file, at most MAX_BYTES of it: tar headers alone can be made to swell."""
    # Some servers unzip on the way, so the content says whether it is still compressed.
    if content.startswith(b"\x1f\x8b"):
        with gzip.open(BytesIO(content)) as stream:
            content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise _too_large(len(content))
    return BytesIO(content)


def _zip_members(content: bytes) -> Iterator[_Member]:
    with zipfile.ZipFile(BytesIO(content)) as archive:
        for info in archive.infolist():

            def read(info: zipfile.ZipInfo = info) -> bytes:
                return archive.read(info)

            # The upper half has the Unix mode; zero where the archive was made elsewhere.
            kind = stat.S_IFMT(info.external_attr >> 16)
            plain = kind in (0, stat.S_IFREG, stat.S_IFDIR)
            yield _Member(info.filename, info.file_size, plain, read)


def _safe_name(member: _Member) -> str:
    """Return the member's path in plain form, or refuse what an unpacker would trip over."""
    name = PurePosixPath(member.name.replace("\\", "/"))
    if name.is_absolute() or ".." in name.parts:
        raise BadArchiveError(f"it holds the path {member.name!r}, which leads out of it")
    if not member.plain:
        raise BadArchiveError(f"it holds {member.name!r}, which is a link or a device, not a file")
    return str(name)


def _too_large(size: int) -> BadArchiveError:
    return BadArchiveError(
        f"it unpacks to {size} bytes or more, beyond the limit of {MAX_BYTES} bytes"
    )
