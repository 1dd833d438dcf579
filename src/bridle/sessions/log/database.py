"""Create, open and migrate the encrypted database file.

Every page is encrypted and authenticated (AEGIS) under the raw data key. A database that has its name is
complete: it is made under another name and renamed, so no process ever meets one without tables.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Protocol, cast

import apsw

from bridle.base.fs import files
from bridle.protocol.errors import StoreError
from bridle.sessions.log import log_key
from bridle.sessions.log.log_key import KeyFile, KeyWrap
from bridle.sessions.log.migrations import MIGRATIONS
from bridle.sessions.log.tips import NO_ROOM

NETWORK = frozenset(
    {
        "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
        "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs",
        "fuse.ceph", "fuse.davfs2", "fuse.glusterfs", "fuse.nfs", "fuse.rclone", "fuse.s3fs", "fuse.smbnetfs",
        "fuse.sshfs",
    }
)  # fmt: skip
"""Kinds whose locks or shared memory cannot be relied on between machines."""

_ESCAPE = re.compile(r"\\([0-7]{3})")
_MOUNTS = "/proc/self/mountinfo"


def network_filesystem(path: str) -> str | None:
    """The kind of network filesystem that holds `path`, which need not exist yet; None for a local or unknown one."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            kind = kind_of(os.path.realpath(path), file.read())
    except OSError:
        return None
    return kind if kind in NETWORK else None


def kind_of(path: str, mountinfo: str) -> str | None:
    """The kind of the filesystem that an absolute, resolved path is on, by the text of a mountinfo file."""
    best, found = -1, None
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 5 or not after:
            continue
        point = _ESCAPE.sub(lambda octal: chr(int(octal[1], 8)), fields[4])
        # of two at one place the later one covers the earlier
        if len(point) >= best and (path == point or path.startswith(point.rstrip("/") + "/")):
            best, found = len(point), after.split(" ", 1)[0]
    return found


BUSY_TIMEOUT_MS = 5_000
_LOCK_TIMEOUT_S = 30.0
_LEAST_ROOM_BYTES = 64 * 1024
"""With less, SQLite cannot even make the index of its write-ahead log."""
LOG_BYTES = 1 << 20
"""A write-ahead log that grew beyond this is cut when it begins anew: what was deleted does not stay in its end."""
_SIDE_FILES = ("-wal", "-shm", "-journal")
_NEW = ".new"
_COPIED_BYTES = 1 << 20
_UNSYNCED = frozenset({apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC})
_VERSIONS = "select version, sha256 from schema_migrations"
_HAS_VERSIONS = "select 1 from sqlite_schema where name = 'schema_migrations'"


class Cursor(Protocol):
    """The part of `apsw.Cursor` we use."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...
    def fetchall(self) -> list[tuple[Any, ...]]: ...
    def fetchone(self) -> tuple[Any, ...] | None: ...


class Connection(Protocol):
    """The part of `apsw.Connection` we use. (Its own type hints need a newer Python than ours.)"""

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, statements: str, bindings: Sequence[Any] = (), /) -> Cursor: ...
    def executemany(self, statements: str, bindings: Iterable[Sequence[Any]], /) -> Cursor: ...
    def last_insert_rowid(self) -> int: ...
    def pragma(self, name: str, value: str | int = ..., /) -> Any: ...
    def set_busy_timeout(self, milliseconds: int, /) -> None: ...
    def set_wal_hook(self, hook: Callable[[Any, str, int], int], /) -> None: ...
    def wal_checkpoint(self) -> tuple[int, int]: ...
    def config(self, option: int, value: int, /) -> int: ...
    def readonly(self, name: str, /) -> bool: ...
    def close(self) -> None: ...


class Database:
    """The database file. Makes nothing until `connect`. With `durable` off nothing is synced."""

    def __init__(
        self,
        folder: str,
        *,
        now_ms: Callable[[], int],
        notice: Callable[[str], None],
        migrations: tuple[str, ...] = MIGRATIONS,
        key_wrap: KeyWrap | None = None,
        durable: bool = True,
    ) -> None:
        self.folder = folder
        self.path = os.path.join(folder, "sessions.db")
        self.key_path = os.path.join(folder, "sessions.key")
        self.head_path = os.path.join(folder, "sessions.head")
        self.key_file = KeyFile(self.key_path, database_path=self.path, wrap=key_wrap)
        self._now_ms = now_ms
        self._notice = notice
        self._migrations = migrations
        self.key_wrap = key_wrap
        self.durable = durable
        self._key: str | None = None

    def exists(self) -> bool:
        return os.path.exists(self.path)

    def connect(self, *, writing: bool = False) -> Connection:
        """A connection to a database of this version's schema, created or migrated first where needed.

        On a disk that cannot be written it only reads, unless it is for `writing`. Raises `StoreError`:
        `StoreUnwritable`, `StoreOnNetwork`, `StoreDamaged`, `StoreBadKey`, `StoreWrongKey` or `StoreNewer`; and
        whatever the wrap of the key raises.
        """
        with self.errors():
            if self.exists() and cannot_be_written(self.folder):
                if writing:
                    raise OSError(errno.EROFS, os.strerror(errno.EROFS), self.path)
                return self._open_unwritable()
            if writing or not self.exists():
                self._refuse_network()
            if not self.exists():
                self._create()
            connection = self._open_current()
            try:
                self._settle_key()
                if self._version(connection) < len(self._migrations):
                    self._upgrade(connection)
            except BaseException:
                connection.close()
                raise
            return connection

    def _refuse_network(self) -> None:
        if (kind := network_filesystem(self.folder)) is not None:
            raise StoreError("StoreOnNetwork", path=self.path, kind=kind)

    def _open_current(self) -> Connection:
        """Open the file, also while another process replaces it. Finish a change of key that was cut off."""
        while True:
            before = os.stat(self.path)
            try:
                connection = self._open(self.path)
            except apsw.NotADBError:
                with self.locked():
                    self.key_file.adopt_next(self._opens_with)
                self.forget_key()
                connection = self._open(self.path)
            if os.path.samestat(before, os.stat(self.path)):
                return connection
            connection.close()
            self.forget_key()

    def _opens_with(self, key: str) -> bool:
        try:
            self.open_with(self.path, key).close()
        except apsw.NotADBError:
            return False
        return True

    def _open_unwritable(self) -> Connection:
        """Reads a database whose disk cannot be written: as it is, or, where some of it is in its write-ahead log or it
        has an older form, from a copy that nobody else sees.
        """
        import shutil
        import tempfile

        wal = self.path + "-wal"
        pending = os.path.exists(wal) and os.path.getsize(wal) > 0
        if not pending:
            connection = self.open_with(self.path, self.data_key(), frozen=True)
            if self._version(connection) == len(self._migrations):
                return connection
            connection.close()
        with tempfile.TemporaryDirectory(prefix="bridle-") as folder:
            copy = os.path.join(folder, "sessions.db")
            shutil.copyfile(self.path, copy)
            if pending:
                shutil.copyfile(wal, copy + "-wal")
            with contextlib.closing(self.open_with(copy, self.data_key())) as connection:
                self.migrate(connection)
                connection.pragma("wal_checkpoint", "truncate")
            return self.open_with(copy, self.data_key(), frozen=True)

    def alone(self) -> Connection:
        """A connection beside which there is no other, in any process, until it is closed.

        For what replaces the file, and closes it after that: whoever had the old one open would go on writing into
        nothing. A file that is cut short is opened too. Raises `StoreError("StoreInUse")`. Call it with `locked` held,
        and copy the file with `copied` only.
        """
        with self.errors():
            self.forget_key()  # whoever held the lock before may have changed it
            connection = self.open_with(self.path, self.data_key(), alone=True, short=True)
            try:
                connection.execute("begin exclusive")
                connection.execute("rollback")
            except BaseException:
                connection.close()
                raise
            return connection

    def beside(self, folder: str) -> Database:
        return Database(
            folder,
            now_ms=self._now_ms,
            notice=self._notice,
            migrations=self._migrations,
            key_wrap=self.key_wrap,
        )

    @contextlib.contextmanager
    def errors(self) -> Generator[None]:
        """Turns what SQLite and the file system raise into `StoreError`."""
        try:
            yield
        except apsw.NotADBError as problem:
            raise self._unopened(str(problem)) from None
        except apsw.BusyError:
            raise StoreError("StoreInUse", path=self.path) from None
        except (apsw.CorruptError, apsw.ReadOnlyError) as problem:
            if isinstance(problem, apsw.ReadOnlyError) and not os.access(self.path, os.W_OK):
                raise StoreError("StoreUnwritable", path=self.path, problem=str(problem)) from problem
            raise StoreError("StoreDamaged", path=self.path, problem=str(problem)) from problem
        except apsw.Error as problem:
            if getattr(problem, "extendedresult", 0) in _UNSYNCED:
                raise self.unsynced(str(problem)) from problem
            # Where the disk is full, SQLite cannot make its side files and calls that an I/O error.
            if isinstance(problem, apsw.FullError) or (
                isinstance(problem, apsw.IOError) and not self.has_room()
            ):
                raise StoreError("NoSpace", folder=self.folder) from problem
            raise StoreError("StoreUnwritable", path=self.path, problem=str(problem)) from problem
        except OSError as problem:
            if problem.errno in NO_ROOM:
                raise StoreError("NoSpace", folder=self.folder) from problem
            path = problem.filename or self.path
            no_folder = isinstance(problem, FileExistsError | NotADirectoryError)
            reason = "it is not a folder" if no_folder else problem.strerror
            raise StoreError(
                "StoreFailed" if problem.errno == errno.EIO else "StoreUnwritable", path=path, problem=reason
            ) from problem

    def unsynced(self, problem: str) -> StoreError:
        """What was written may not be on the disk, and nobody will know: the system forgets what it failed to sync.

        A later sync that succeeds says nothing of it, so nothing more is written.
        """
        return StoreError("StoreFailed", path=self.path, problem=f"{problem} while syncing")

    def _unopened(self, problem: str) -> StoreError:
        if log_key.proves_key(self.head_path, self.data_key()):
            return StoreError("StoreDamaged", path=self.path, problem=problem)
        return StoreError("StoreWrongKey", path=self.path, key_path=self.key_path)

    def keep_key_proof(self) -> None:
        """Write the proof of the key unless there is one. On a full disk it has to wait."""
        if not os.path.exists(self.head_path):
            with contextlib.suppress(OSError):
                log_key.write_key_proof(self.head_path, self.data_key())

    def forget_key_proof(self) -> None:
        """Remove the proof of the key, which is about to change."""
        _remove(self.head_path)

    def has_room(self) -> bool:
        try:
            disk = os.statvfs(self.folder)
        except OSError:
            return True
        return disk.f_bavail * disk.f_frsize >= _LEAST_ROOM_BYTES

    def _create(self) -> None:
        files.private_folder(self.folder)
        with self.locked():
            if self.exists():
                return
            self.key_file.make()
            fresh = self.path + _NEW
            self.forget_key_proof()
            # A log left over from a deleted database would be replayed into the new one.
            _remove(fresh, *(name + side for name in (fresh, self.path) for side in _SIDE_FILES))
            os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            with contextlib.closing(self._open(fresh)) as connection:
                connection.pragma("auto_vacuum", "incremental")  # only before the first table
                connection.pragma("journal_mode", "wal")
                self.migrate(connection)
            os.rename(fresh, self.path)
            if self.durable:
                files.sync_folder(self.folder)

    def _upgrade(self, connection: Connection) -> None:
        with self._without_engine(), self.locked():
            self._notice("Database is upgrading…")
            connection.pragma("journal_mode", "wal")
            self.migrate(connection)

    @contextlib.contextmanager
    def _without_engine(self) -> Generator[None]:
        """While no engine of another version listens for these sessions: it would not know them any more."""
        from bridle.base.net.engine_place import LOCK_NAME  # an upgrade is rare

        lock = files.FileLock(os.path.join(self.folder, LOCK_NAME))
        with lock:
            if not lock.acquire(note={"pid": os.getpid()}):
                holder = (lock.holder() or {}).get("pid", "?")
                if holder != os.getpid():
                    raise StoreError("StoreHeld", path=self.path, pid=holder)
            yield

    @contextlib.contextmanager
    def locked(self) -> Generator[None]:
        """Holds the lock under which the database is made, changed in form, or replaced."""
        lock = self._lock()
        with self.errors():
            taken = lock.acquire(timeout_s=_LOCK_TIMEOUT_S)
        if not taken:
            problem = "another Bridle is creating or upgrading it"
            raise StoreError("StoreUnwritable", path=self.path, problem=problem)
        with lock:
            yield

    def _lock(self) -> files.FileLock:
        return files.FileLock(os.path.join(self.folder, "sessions.lock"))

    def _settle_key(self) -> None:
        """Wraps a key that opened the database and is not wrapped as it should be, unless somebody is at it."""
        lock = self._lock()
        if not self.key_file.is_settled and lock.acquire():
            with lock:
                self.key_file.settle()

    def _open(self, path: str) -> Connection:
        return self.open_with(path, self.data_key())

    def data_key(self) -> str:
        if self._key is None:
            self._key = self.key_file.read(self._notice)
        return self._key

    def forget_key(self) -> None:
        """The key has changed: the next connection reads it again."""
        self._key = None

    def open_with(
        self, path: str, key: str, *, alone: bool = False, frozen: bool = False, short: bool = False
    ) -> Connection:
        """Connect to any file of this kind. `frozen`: opened as it stands. `short`: also where it is shorter than it
        says."""
        flags = apsw.SQLITE_OPEN_READWRITE
        if frozen:
            from urllib.parse import quote

            path, flags = f"file:{quote(path)}?immutable=1", apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        connection = cast("Connection", apsw.Connection(path, flags=flags))
        try:
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            if alone:
                connection.pragma("locking_mode", "exclusive")
            connection.pragma("cipher", "aegis")
            connection.pragma("key", f"raw:{key}")
            if short:
                connection.pragma("writable_schema", 1)  # SQLite then believes the size of the file
            connection.execute("select count(*) from sqlite_schema").fetchall()  # the key is tried here
            connection.pragma("synchronous", "normal" if self.durable else "off")
            connection.pragma("secure_delete", 1)  # what is deleted is overwritten
            connection.pragma("journal_size_limit", LOG_BYTES)
            return connection
        except BaseException:
            connection.close()
            raise

    def _version(self, connection: Connection) -> int:
        """The schema the file has. Refuses one that is newer or was made differently."""
        if not connection.execute(_HAS_VERSIONS).fetchall():
            return 0
        applied = {int(version): str(digest) for version, digest in connection.execute(_VERSIONS)}
        found = max(applied, default=0)
        known = len(self._migrations)
        if found > known:
            raise StoreError("StoreNewer", path=self.path, found=found, known=known)
        for version, digest in applied.items():
            if digest != _digest(self._migrations[version - 1]):
                problem = f"its schema {version} is not the one this version made"
                raise StoreError("StoreUnwritable", path=self.path, problem=problem)
        return found

    def migrate(self, connection: Connection) -> None:
        connection.execute("begin immediate")
        try:
            found = self._version(connection)
            for version, step in enumerate(self._migrations[found:], found + 1):
                connection.execute(step)
                connection.execute(
                    "insert into schema_migrations values(?, ?, ?)", (version, self._now_ms(), _digest(step))
                )
            connection.execute("commit")
        except BaseException:
            if connection.in_transaction:
                connection.execute("rollback")
            raise


def keep_log(connection: Connection) -> None:
    """Closing the connection leaves the write-ahead log as it is, also where it is the last one."""
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)


@contextlib.contextmanager
def copied(path: str, target: str) -> Generator[None]:
    """A new, private copy of a file that this process has a connection to; a missing one is left out.

    The original stays open as long as this lasts: the system drops every lock of a process on a file, those of SQLite
    too, when the process closes it once.
    """
    import shutil

    with contextlib.ExitStack() as stack:
        with contextlib.suppress(FileNotFoundError):
            source = stack.enter_context(open(path, "rb"))
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with open(os.open(target, flags, 0o600), "wb") as copy:
                shutil.copyfileobj(source, copy, _COPIED_BYTES)
        yield


def cannot_be_written(folder: str) -> bool:
    try:
        mounted_so = bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        return False
    return mounted_so or not os.access(folder, os.W_OK)


def _digest(step: str) -> str:
    return sha256(step.encode()).hexdigest()


def _remove(*paths: str) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
