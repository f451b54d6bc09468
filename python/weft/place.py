"""A results folder while it is written: one run at a time, and only what Weft wrote is replaced.

DIR/.weft/lock    held by the run that uses the folder; the system lets go of it with the process
DIR/.weft/draft   what becomes the results next; it is complete once it holds its manifest

A draft is moved into its place file by file, its manifest last. What is complete is put in its
place by whoever uses the folder next, should its process be killed meanwhile.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import stat
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft import manifest
from weft.manifest import MANIFEST, Entry, ManifestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RESULT = "result.json"

_HIDDEN = ".weft"
_LOCK = "lock"
_DRAFT = "draft"

# How often a folder is looked for anew that another run removes at that moment.
_TRIES = 100

# The errors of a file system without locks.
_LOCKLESS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


class FolderError(ValueError):
    """A folder that cannot be written to, or that holds no results."""


class Place:
    """A results folder that this process has for itself. See `claim`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.remarks: list[str] = []

    @property
    def holds_results(self) -> bool:
        """Whether complete earlier results exist."""
        return (self.folder / MANIFEST).exists()

    def put(self, fill: Callable[[Path], None], *, adding: bool = False) -> None:
        """Have a draft filled and put it in the place of the results that are there.

        A file that somebody added stays where it is. One in the way of a new file, or changed since
        Weft wrote it, is kept beside it as `NAME.kept.ENDING`, and `remarks` says so.

        Args:
            fill: writes the files below the folder that it is given.
            adding: leave the files that are there and have no successor in the draft.

        Raises:
            FolderError: it could not be written; what was there before still is.

        """
        draft = _draft_of(self.folder)
        if adding:
            kept = f"the tables are kept; `weft report {self.folder}` draws what is missing"
        elif self.holds_results:
            kept = "the earlier results are kept"
        else:
            kept = "nothing of these results is kept there"
        with _told(self.folder, kept):
            _remove(draft)
            draft.mkdir(parents=True)
            try:
                fill(draft)
                new = {name: Entry.of(draft / name) for name in _files(draft)}
                before = _owned(self.folder) if adding else {}
                manifest.write_all(draft, {**before, **new})
            except BaseException:
                _remove(draft)
                raise
        self.recover()

    def recover(self) -> None:
        """Put a complete draft in its place, and remove one that is not."""
        draft = _draft_of(self.folder)
        later = (
            f"the new results are kept, and `weft report {self.folder}` puts them in their place"
        )
        with _told(self.folder, later), uninterrupted():
            if _is_complete(draft):
                self._finish(draft)
            _remove(draft)

    def _finish(self, draft: Path) -> None:
        """Move a complete draft into its place; a second call continues an interrupted one."""
        new, old = manifest.read_all(draft), _owned(self.folder)
        names = _files(draft)
        manifests = [name for name in names if name.rsplit("/", 1)[-1] == MANIFEST]
        files = [name for name in names if name not in manifests]
        for name in [*files, *manifests]:
            self._make_room(name)
        # A file that is refused must be refused before the first one is moved.
        for folder in {(self.folder / name).parent for name in {*names, *(old.keys() - new)}}:
            _check_writable(folder, draft)
        for name in files:
            target = self.folder / name
            mine = [entry for entry in (old.get(name), new.get(name)) if entry is not None]
            if os.path.lexists(target) and not any(entry.holds(target) for entry in mine):
                self._set_aside(target)
            (draft / name).replace(target)
        for name, entry in old.items():
            if name not in new and entry.holds(self.folder / name):
                (self.folder / name).unlink()
        gone = {name.rpartition("/")[0] for name in old if name not in new}
        lost = {manifest.level_of(name) for name in old} - {manifest.level_of(name) for name in new}
        for level in lost - {""}:
            (self.folder / level / MANIFEST).unlink(missing_ok=True)
        for empty in sorted(gone | lost, reverse=True):
            _prune(self.folder, empty)
        # The outermost names all others, so it comes last.
        for name in sorted(manifests, key=len, reverse=True):
            (draft / name).replace(self.folder / name)

    def _make_room(self, name: str) -> None:
        """Make the folders above a file."""
        folder = self.folder
        for part in name.split("/")[:-1]:
            folder /= part
            if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir()):
                self._set_aside(folder)
            folder.mkdir(exist_ok=True)

    def _set_aside(self, path: Path) -> None:
        """Rename what somebody else put, or changed, where a file of the results belongs."""
        for number in range(1, 1_000_000):
            more = "" if number == 1 else f"-{number}"
            other = path.with_name(f"{path.stem}.kept{more}{path.suffix}")
            if not os.path.lexists(other):
                path.rename(other)
                self.remarks.append(f"{path} is not as Weft wrote it; it is kept as {other}")
                return


@contextmanager
def claim(folder: Path, *, of_results: bool = False) -> Iterator[Place]:
    """Have a results folder for this process alone; it is made if it is not there.

    Args:
        folder: where.
        of_results: the folder is one that results were read from, however it was written.

    Raises:
        FolderError: it cannot be written to, holds something else, or another run uses it.

    """
    if not of_results:
        check(folder)
    made, lock = _lock(folder)
    place = Place(folder)
    try:
        place.recover()
        if not of_results:
            check(folder)
        yield place
    finally:
        hidden = folder / _HIDDEN
        with suppress(OSError):
            # The next run puts a complete draft in its place that could not be moved now.
            if not _is_complete(_draft_of(folder)):
                _remove(_draft_of(folder))
            (hidden / _LOCK).unlink(missing_ok=True)
        with suppress(OSError):
            hidden.rmdir()
            for one in reversed(made):
                one.rmdir()
        os.close(lock)


def check(folder: Path) -> None:
    """Refuse a place whose files results could not be told from.

    Raises:
        FolderError: it is a file, or holds what no manifest tells apart.

    """
    try:
        if one := _file_among(folder):
            raise FolderError(f"{one} is a file; give a folder to write the results to")
        if not folder.exists() or _is_complete(_draft_of(folder)):
            return
        there = [name for name in os.listdir(folder) if name != _HIDDEN]
    except FileNotFoundError:
        return
    except OSError as error:
        raise FolderError(_refused(folder, error)) from error
    if MANIFEST in there:
        try:
            manifest.read_all(folder)
        except ManifestError as error:
            raise FolderError(
                f"{folder / MANIFEST} cannot be read ({error}), so Weft cannot tell its files from "
                "yours; give another folder with --out"
            ) from error
        return
    if RESULT in there:
        raise FolderError(
            f"{folder} holds results without a {MANIFEST}, so Weft cannot tell its files from "
            "yours; give another folder with --out, or remove this one"
        )
    if there:
        raise FolderError(
            f"{folder} is not empty and holds no earlier results; give another folder with --out"
        )


def finish(folder: Path) -> None:
    """Put a complete draft in its place that a process which was killed left, if there is one."""
    if _is_complete(_draft_of(folder)):
        with suppress(FolderError), claim(folder, of_results=True):
            pass


def whole(path: Path, text: str) -> None:
    """Write a file that appears whole or not at all.

    Raises:
        FolderError: it cannot be written; the message names the path.

    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        if one := _file_among(path.parent):
            raise FolderError(f"{path} cannot be written: {one} is a file")
        path.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(path) and not path.is_file():
            # A pipe or a terminal is written to, not replaced.
            path.write_text(text, encoding="utf-8")
            return
        try:
            draft.write_text(text, encoding="utf-8")
            draft.replace(path.resolve())
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise FolderError(_refused(path, error)) from error


def in_words(error: Exception) -> str:
    """Say what went wrong without a path, which may be that of a draft."""
    number = getattr(error, "errno", None)
    return os.strerror(number) if number else str(error)


def _refused(path: Path, error: Exception) -> str:
    return f"{path} cannot be written: {in_words(error)}"


@contextmanager
def _told(folder: Path, kept: str) -> Iterator[None]:
    """Tell of what goes wrong by the path that a person gave, and of what is kept."""
    try:
        yield
    except (OSError, ManifestError) as error:
        raise FolderError(f"{_refused(_named_by(error, folder), error)}; {kept}") from error


def _named_by(error: Exception, folder: Path) -> Path:
    """Return the place that an error names below a folder; the folder, if that is in a draft."""
    for name in (getattr(error, "filename2", None), getattr(error, "filename", None)):
        path = Path(name) if isinstance(name, str) else folder
        if folder in path.parents and folder / _HIDDEN not in (path, *path.parents):
            return path
    return folder


def _file_among(folder: Path) -> Path | None:
    """Return a folder, or one above it, that is none."""
    for path in (folder, *folder.parents):
        # One look, since another run may remove the folder between two.
        try:
            if not stat.S_ISDIR(path.stat().st_mode):
                return path
        except NotADirectoryError:
            continue
        except FileNotFoundError:
            if path.is_symlink():
                return path
    return None


def _draft_of(folder: Path) -> Path:
    return folder / _HIDDEN / _DRAFT


def _is_complete(draft: Path) -> bool:
    return (draft / MANIFEST).is_file()


def _check_writable(folder: Path, draft: Path) -> None:
    if not folder.is_dir():
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    if folder.stat().st_dev != draft.stat().st_dev:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(folder))


def _lock(folder: Path) -> tuple[list[Path], int]:
    """Make the folder and take its lock; return the folders that were made, and the lock."""
    made: list[Path] = []
    missing = None
    try:
        for _ in range(_TRIES):
            try:
                _make(folder / _HIDDEN, made)
            except FileNotFoundError as error:
                # A run that is just ending removes what is above; or nothing can be made there.
                missing = error
                continue
            lock = _try_lock(folder)
            if lock is not None:
                made = [one for one in made if one.name != _HIDDEN]
                return made, lock
    except OSError as error:
        for one in reversed(made):
            with suppress(OSError):
                one.rmdir()
        raise FolderError(_refused(folder, error)) from error
    if missing is not None:
        raise FolderError(_refused(folder, missing))
    raise FolderError(f"{folder} is in use by other runs, which make and remove it again and again")


def _make(folder: Path, made: list[Path]) -> None:
    """Make a folder and those above it; note what was made, from the outermost on."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for one in reversed(missing):
        with suppress(FileExistsError):
            one.mkdir()
            made.append(one)


def _try_lock(folder: Path) -> int | None:
    """Take the lock; None if the run that had it removed it at that moment."""
    path = folder / _HIDDEN / _LOCK
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 100, 0).decode(errors="replace").strip()
        os.close(lock)
        who = f" ({holder})" if holder else ""
        raise FolderError(
            f"{folder} is in use by another run{who}; wait for it, or give another folder with "
            "--out"
        ) from None
    except OSError as error:
        if error.errno not in _LOCKLESS:
            os.close(lock)
            raise
    try:
        is_current = os.fstat(lock).st_ino == path.stat().st_ino
    except FileNotFoundError:
        is_current = False
    if not is_current:
        os.close(lock)
        return None
    with suppress(OSError):
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"process {os.getpid()} on {os.uname().nodename}\n".encode(), 0)
    return lock


def _owned(folder: Path) -> dict[str, Entry]:
    """Return what Weft wrote there; nothing, if its manifest is damaged."""
    try:
        return manifest.read_all(folder)
    except ManifestError:
        return {}


def _files(folder: Path) -> list[str]:
    found = [path for path in folder.rglob("*") if not path.is_dir()]
    return sorted(path.relative_to(folder).as_posix() for path in found)


def _prune(root: Path, folder: str) -> None:
    """Remove a folder and those above it, as far as nothing is in them any more."""
    with suppress(OSError):
        while folder:
            (root / folder).rmdir()
            folder = folder.rpartition("/")[0]


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Put off Ctrl-C until what is done here is done; a second one is heeded at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[tuple[Any, ...]] = []

    def note(*given: Any) -> None:
        asked.append(given)
        if len(asked) > 1 and callable(before):
            before(*given)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if asked and callable(before):
        before(*asked[0])
