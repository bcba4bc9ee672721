"""Read the files of a data set from a folder, or from an archive in it; nothing is unpacked."""

import tarfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from priorshift._validation import some


def read_files(
    folder: Path, archives: Sequence[str], wanted: Sequence[str]
) -> dict[str, bytes] | None:
    """Return the content of files by name, or None where they are not to be found.

    Parameters
    ----------
    folder : Path
        Where to look: for the files themselves, for a folder that holds them, for an archive.
    archives : sequence of str
        Patterns of names of archives.
    wanted : sequence of str
        Names of the files, without their folders. If the first is found, all must be.
    """
    for place in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
        if (place / wanted[0]).is_file():
            there = [name for name in wanted if (place / name).is_file()]
            return _all({name: (place / name).read_bytes() for name in there}, wanted, place)
    for path in (path for pattern in archives for path in sorted(folder.glob(pattern))):
        found = _read_archive(path, wanted)
        if found:
            return _all(found, wanted, path)
    return None


def _all(found: dict[str, bytes], wanted: Sequence[str], place: Path) -> dict[str, bytes]:
    missing = [name for name in wanted if name not in found]
    if missing:
        raise ValueError(f"{place} lacks {some(missing)}; fetch it again.")
    return found


def _read_archive(path: Path, wanted: Sequence[str]) -> dict[str, bytes]:
    """Read members by the last part of their names, in one pass."""
    found = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = PurePosixPath(member.name).name
                stream = archive.extractfile(member) if name in wanted else None
                if stream is not None:  # None: a folder
                    found[name] = stream.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"{path} cannot be read ({error}); fetch it again.") from error
    return found
