"""The session log's key is wrapped by what locks the credential store: from the first session on, whatever happens."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from bridle.app.user.stored_keys import StoredKeys, key_path, log_key_path, session_store, store_path
from bridle.base.clock import SystemClock
from bridle.base.ids import Ids
from bridle.config.folders import folders
from bridle.credentials.locks import MACHINE_KEY, PASSPHRASE
from bridle.credentials.records import ApiKey
from bridle.protocol.errors import BridleError, StoreError
from bridle.sessions.repair import rekey, repair
from bridle.sessions.store import SessionStore
from credentials.credential_kit import a_secret, made_key

DIED = 9


class Home:
    """An installation in a scratch folder."""

    def __init__(self, root: Path) -> None:
        self.env = {"BRIDLE_HOME": str(root)}
        self.where = folders(self.env)
        self.key = Path(log_key_path(self.where))

    def stored(self, **env: str) -> StoredKeys:
        return StoredKeys(where=self.where, env=env, clock=SystemClock())

    def store(self, **env: str) -> closing[SessionStore]:
        return closing(session_store({**self.env, **env}))

    def create(self, **env: str) -> str:
        with self.store(**env) as store, closing(store.create("/code", profile="default")) as log:
            return log.session

    def create_plain(self) -> str:
        """As a version before wrapped keys left it."""
        clock = SystemClock()
        plain = SessionStore(self.where.data, ids=Ids(clock.now_ms, os.urandom), clock=clock)
        with closing(plain) as store, closing(store.create("/code", profile="default")) as log:
            return log.session

    def sessions(self, **env: str) -> list[str]:
        with self.store(**env) as store:
            return [row.id for row in store.list()]

    def refusal(self, **env: str) -> tuple[str, str]:
        with pytest.raises(StoreError) as refused:
            self.sessions(**env)
        return refused.value.reason, refused.value.message

    @property
    def locks(self) -> list[str]:
        """What the key file says; empty where the key is plain."""
        data = self.key.read_bytes()
        return [one["lock"]["kind"] for one in json.loads(data)["wraps"]] if data.startswith(b"{") else []


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "bridle")


MACHINE = {MACHINE_KEY: made_key()}


# Which lock it gets


def test_without_a_lock_of_ones_own_nothing_is_asked_and_the_key_is_wrapped(home: Home) -> None:
    session = home.create()
    assert home.sessions() == [session]
    assert home.locks == ["automatic"]
    assert not Path(store_path(home.where)).exists()
    for path in (home.key, Path(key_path(home.where))):
        assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(home.where.data)) == [
        *(
            "locks",
            "machine.key",
            "machine.key.lock",
            "sessions.db",
            "sessions.head",
            "sessions.key",
            "sessions.lock",
            "tips",
        ),
    ]


def test_the_machine_key_of_the_environment_locks_a_new_log_and_only_it_opens(home: Home) -> None:
    session = home.create(**MACHINE)
    assert home.locks == ["machine"]
    assert home.sessions(**MACHINE) == [session]
    assert home.refusal() == (
        "SessionsLocked",
        "Your sessions are locked: set BRIDLE_MACHINE_KEY. Nothing was changed.",
    )
    assert home.refusal(**{MACHINE_KEY: made_key(7)}) == (
        "SessionsWrongKey",
        "BRIDLE_MACHINE_KEY does not open your sessions. Nothing was changed.",
    )
    assert home.refusal(**{MACHINE_KEY: "short"})[0] == "BadMachineKey"
    assert not Path(key_path(home.where)).exists()


def test_a_log_follows_the_lock_of_the_store_and_shares_its_passphrase(home: Home) -> None:
    phrase = {PASSPHRASE: a_secret()}
    home.stored(**phrase).store.put(ApiKey(provider="work", secret=a_secret()))
    with pytest.raises(BridleError) as refused:
        home.create()
    assert refused.value.reason == "SessionsLocked"
    assert not home.key.exists(), "a log that could not be locked is not begun"
    session = home.create(**phrase)
    assert home.locks == ["passphrase"]
    assert home.sessions(**phrase) == [session]
    lock = json.loads(home.key.read_bytes())["wraps"][0]["lock"]
    assert lock == json.loads(Path(store_path(home.where)).read_bytes().partition(b"\n")[0])["lock"]


def test_a_log_that_is_there_gets_the_lock_of_the_first_stored_key(home: Home) -> None:
    session = home.create()
    home.stored(**MACHINE).store.put(ApiKey(provider="work", secret=a_secret()))
    assert home.locks == ["machine"]
    assert home.sessions(**MACHINE) == [session]
    home.stored(**MACHINE).store.delete("work")
    assert not Path(store_path(home.where)).exists()
    assert home.sessions(**MACHINE) == [session], "what is locked stays locked when the last key is forgotten"


def test_a_variable_that_is_set_later_changes_nothing(home: Home) -> None:
    session = home.create()
    assert home.sessions(**MACHINE) == [session]
    assert home.locks == ["automatic"]
    with home.store(**MACHINE) as store:
        rekey.rekey(store.shelf.database)
    assert (home.locks, home.sessions()) == (["automatic"], [session])


# From a plain key


@pytest.mark.parametrize("stored", ["nothing", "automatic", "machine"])
def test_a_plain_key_is_wrapped_when_the_log_is_next_opened(home: Home, stored: str) -> None:
    session = home.create_plain()
    plain = home.key.read_bytes()
    env = MACHINE if stored == "machine" else {}
    if stored != "nothing":
        home.stored(**env).encrypted.put(ApiKey(provider="work", secret=a_secret()))
    assert (home.locks, home.sessions(**env)) == ([], [session])
    assert home.locks == ["machine" if stored == "machine" else "automatic"]
    wrapped = home.key.read_bytes()
    assert plain.strip() not in wrapped
    assert home.sessions(**env) == [session]
    assert home.key.read_bytes() == wrapped, "once"
    assert [name for name in os.listdir(home.where.data) if "wrapping" in name] == []


@pytest.mark.parametrize("why", ["locked", "lost"])
def test_a_plain_key_stays_and_opens_where_it_cannot_be_wrapped_yet(home: Home, why: str) -> None:
    session = home.create_plain()
    plain = home.key.read_bytes()
    env = MACHINE if why == "locked" else {}
    home.stored(**env).encrypted.put(ApiKey(provider="work", secret=a_secret()))
    if why == "lost":
        os.unlink(key_path(home.where))
    assert home.sessions() == [session]
    assert home.key.read_bytes() == plain
    assert not Path(key_path(home.where)).exists(), "a lost key is not replaced: it may come back"
    if why == "locked":
        assert home.sessions(**MACHINE) == [session]
        assert home.locks == ["machine"]


def test_a_key_that_does_not_open_the_store_locks_no_log(home: Home) -> None:
    home.stored(**MACHINE).store.put(ApiKey(provider="work", secret=a_secret()))
    with pytest.raises(StoreError) as refused:
        home.create(**{MACHINE_KEY: made_key(7)})
    assert refused.value.reason == "SessionsWrongKey"
    assert not home.key.exists()
    session = home.create(**MACHINE)
    assert home.sessions(**MACHINE) == [session]


def test_a_plain_key_is_not_wrapped_by_a_key_that_does_not_open_the_store(home: Home) -> None:
    session = home.create_plain()
    home.stored(**MACHINE).store.put(ApiKey(provider="work", secret=a_secret()))
    assert home.sessions(**{MACHINE_KEY: made_key(7)}) == [session]
    assert home.locks == []
    assert (home.sessions(**MACHINE), home.locks) == ([session], ["machine"])


def test_a_plain_key_that_does_not_open_the_log_is_left_as_it_is(home: Home) -> None:
    home.create_plain()
    home.key.write_text("0" * 64)
    assert home.refusal()[0] == "StoreWrongKey"
    assert home.key.read_text() == "0" * 64


def test_on_a_disk_that_cannot_be_written_a_plain_key_opens(home: Home, tmp_path: Path) -> None:
    session = home.create_plain()
    plain = home.key.read_bytes()
    lists = BEGINS + "print([row.id for row in store.list()])"
    argv = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", sys.executable, "-c", lists]
    done = subprocess.run(argv, env=home.env, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode and "bwrap" in done.stderr:
        pytest.skip("bubblewrap does not work here")
    assert (done.stdout, done.returncode) == (f"['{session}']\n", 0)
    assert home.key.read_bytes() == plain


# Changing the lock


def test_the_lock_of_the_store_and_of_the_log_change_together(home: Home) -> None:
    session = home.create()
    phrase = {PASSPHRASE: a_secret()}
    home.stored().relock("passphrase", phrase[PASSPHRASE])
    assert (home.locks, home.sessions(**phrase)) == (["passphrase"], [session])
    assert home.refusal()[0] == "SessionsLocked"
    assert home.refusal(**{PASSPHRASE: "no"})[0] == "SessionsWrongKey"
    home.stored(**phrase, **MACHINE).relock("machine")
    assert (home.locks, home.sessions(**MACHINE)) == (["machine"], [session])
    home.stored(**MACHINE).relock("automatic")
    assert (home.locks, home.sessions()) == (["automatic"], [session])


def test_one_passphrase_gives_way_to_another_and_the_old_one_is_typed_once(home: Home) -> None:
    session = home.create()
    old, new = a_secret(), a_secret()
    home.stored().relock("passphrase", old)
    home.stored(**{PASSPHRASE: old}).store.put(ApiKey(provider="work", secret=a_secret()))
    typed: list[str] = []

    def ask() -> str:
        typed.append(old)
        return old

    stored = StoredKeys(where=home.where, env={}, clock=SystemClock(), ask=ask)
    stored.relock("passphrase", new)
    assert typed == [old]
    assert home.sessions(**{PASSPHRASE: new}) == [session]
    assert home.stored(**{PASSPHRASE: new}).providers() == {"work"}
    assert home.refusal(**{PASSPHRASE: old})[0] == "SessionsWrongKey"


def test_a_session_that_runs_goes_on_while_the_lock_is_changed(home: Home) -> None:
    with home.store() as store, closing(store.create("/code", profile="default")) as log:
        home.stored(**MACHINE).relock("machine")
        store.rename(log.session, "after the change")
    with home.store(**MACHINE) as store:
        assert [row.title for row in store.list()] == ["after the change"]


def test_a_log_that_does_not_open_keeps_the_store_as_it_is(home: Home) -> None:
    home.create(**MACHINE)
    home.stored(**MACHINE).store.put(ApiKey(provider="work", secret=a_secret()))
    kept = {path: path.read_bytes() for path in (home.key, Path(store_path(home.where)))}
    spoilt = json.loads(kept[home.key])
    spoilt["wraps"][0]["tag"] = "00" * 32
    home.key.write_text(json.dumps(spoilt))
    with pytest.raises(BridleError):
        home.stored(**MACHINE).relock("automatic")
    assert Path(store_path(home.where)).read_bytes() == kept[Path(store_path(home.where))]
    home.key.write_bytes(kept[home.key])
    home.stored(**MACHINE).relock("automatic")


def test_without_a_log_only_the_store_is_locked_anew(home: Home) -> None:
    home.stored(**MACHINE).relock("machine")
    assert not home.key.exists()
    home.create(**MACHINE)
    assert home.locks == ["machine"]


def test_a_damaged_log_key_keeps_nobody_from_storing_a_first_key(home: Home) -> None:
    home.create()
    home.key.write_bytes(b"{")
    home.stored().store.put(ApiKey(provider="work", secret=a_secret()))
    assert home.stored().providers() == {"work"}
    assert home.key.read_bytes() == b"{"


# A new data key, repair, a key that is lost, backups


@pytest.mark.parametrize("env", [{}, MACHINE], ids=["automatic", "machine"])
def test_a_new_data_key_is_wrapped_alike(home: Home, env: Mapping[str, str]) -> None:
    session = home.create(**env)
    before = home.key.read_bytes()
    with home.store(**env) as store:
        rekey.rekey(store.shelf.database)
    assert home.key.read_bytes() != before
    assert home.sessions(**env) == [session]
    assert len(home.locks) == 1
    (old, new) = before, home.key.read_bytes()
    home.key.write_bytes(old)  # cut off between the two files
    (home.key.parent / "sessions.key.next").write_bytes(new)
    assert home.sessions(**env) == [session]
    assert home.key.read_bytes() == new


def test_a_lock_is_changed_also_while_a_new_data_key_waits(home: Home) -> None:
    session = home.create()
    before = home.key.read_bytes()
    with home.store() as store:
        rekey.rekey(store.shelf.database)
    home.key.rename(f"{home.key}.next")
    home.key.write_bytes(before)
    home.stored(**MACHINE).relock("machine")
    assert home.sessions(**MACHINE) == [session]
    assert home.locks == ["machine"]


def test_repair_saves_under_the_same_key(home: Home) -> None:
    session = home.create()
    with home.store() as store:
        database = store.shelf.database
    with closing(database.connect()) as connection:
        columns = "log, id, kind, ts_ms, originator, digest, chain"
        connection.execute(f"insert into events({columns}) values(1, 1, 'x', 0, 'x', x'00', x'00')")
    assert not repair.repair(database).whole
    assert home.sessions() == [session]
    assert home.locks == ["automatic"]


def test_a_lost_automatic_key_is_said_and_nothing_takes_its_place(home: Home) -> None:
    session = home.create()
    path = Path(key_path(home.where))
    kept = path.read_bytes()
    path.unlink()
    reason, message = home.refusal()
    assert reason == "SessionsLocked"
    assert f"the key in {path} cannot be read" in message
    assert not path.exists()
    path.write_text(os.urandom(32).hex())
    assert home.refusal() == (
        "SessionsWrongKey",
        f"the key in {path} does not open your sessions. Nothing was changed.",
    )
    path.write_bytes(kept)
    assert home.sessions() == [session]


def test_a_lost_automatic_key_of_the_log_is_not_replaced_by_a_first_stored_key(home: Home) -> None:
    session = home.create()
    path = Path(key_path(home.where))
    kept = path.read_bytes()
    path.unlink()
    with pytest.raises(BridleError) as refused:
        home.stored().store.put(ApiKey(provider="work", secret=a_secret()))
    assert refused.value.reason == "CredentialsLocked"
    assert (path.exists(), Path(store_path(home.where)).exists()) == (False, False)
    home.stored(**MACHINE).store.put(ApiKey(provider="work", secret=a_secret()))
    path.write_bytes(kept)
    assert home.sessions(**MACHINE) == [session]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"bridle":"wrapped key","format":2,"wraps":[]}', "CredentialsNewer"),
        (b'{"bridle":"wrapped key"', "StoreBadKey"),
        (b'{"bridle":"credentials","format":1}', "StoreBadKey"),
        (b"", "StoreBadKey"),
    ],
)
def test_what_is_no_key_of_this_version_is_refused_and_kept(home: Home, content: bytes, reason: str) -> None:
    home.create()
    home.key.write_bytes(content)
    found, message = home.refusal()
    assert found == reason
    assert str(home.where.data) in message
    assert home.key.read_bytes() == content


def test_a_damaged_store_is_not_taken_for_a_damaged_log(home: Home) -> None:
    store = Path(store_path(home.where))
    session = home.create()
    store.parent.mkdir(parents=True, exist_ok=True)
    store.write_bytes(b"no store")
    with home.store() as sessions, pytest.raises(BridleError) as refused:
        rekey.rekey(sessions.shelf.database)
    assert refused.value.reason == "CredentialsDamaged"
    assert str(store) in refused.value.message
    assert home.sessions() == [session]


def test_a_backup_opens_where_it_is_put_back_wrapped_or_from_before(home: Home, tmp_path: Path) -> None:
    session = home.create_plain()
    shutil.copytree(home.where.data, tmp_path / "before")
    home.sessions()
    shutil.copytree(home.where.data, tmp_path / "wrapped")
    home.stored(**MACHINE).relock("machine")
    for name in ("wrapped", "before"):
        shutil.rmtree(home.where.data)
        shutil.copytree(tmp_path / name, home.where.data)
        assert home.sessions(**MACHINE) == [session], "each says by itself how it is locked"
    assert home.locks == ["machine"], "and a plain one follows the store as it is now"


# Killed at any point, and several at once


def dies_at(number: int, work: Callable[[], object]) -> bool:
    """Does the work in a process that dies before its `number`th change to the file system; False if it got through."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of the test runner, not of the child
        child = os.fork()
    if child == 0:
        left = [number]

        def count(event: str, arguments: tuple[object, ...]) -> None:
            writes = (
                event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
            )
            if writes or event in {"os.rename", "os.remove", "os.mkdir", "os.truncate"}:
                left[0] -= 1
                if not left[0]:
                    os._exit(DIED)

        try:
            sys.addaudithook(count)
            work()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, DIED)
    return code == DIED


def deaths(home: Home, work: Callable[[], object]) -> Iterator[int]:
    """Begins anew from the same state for every point at which the work can be cut off; yields after each."""
    root = Path(home.env["BRIDLE_HOME"])
    start = root.with_name("start")
    shutil.copytree(root, start)
    for number in range(1, 200):
        died = dies_at(number, work)
        yield number
        if not died:
            return
        shutil.rmtree(root)
        shutil.copytree(start, root)
    raise AssertionError("the work does not end")


def test_a_key_that_is_being_wrapped_opens_at_every_point(home: Home) -> None:
    session = home.create_plain()
    points = 0
    for _ in deaths(home, home.sessions):
        points += 1
        assert home.sessions() == [session]
        assert home.locks == ["automatic"], "and the next one finishes it"
    assert points > 5


def test_while_the_lock_is_changed_whoever_opens_the_store_opens_the_log(home: Home) -> None:
    session = home.create()
    home.stored().store.put(ApiKey(provider="work", secret=a_secret()))
    before = after = 0
    for _ in deaths(home, lambda: home.stored(**MACHINE).relock("machine")):
        if home.stored().encrypted.lock_kind() == "automatic":
            before += 1
            assert (home.stored().providers(), home.sessions()) == ({"work"}, [session])
            assert home.locks == ["automatic"]
        else:
            after += 1
            os.unlink(key_path(home.where))
            assert (home.stored(**MACHINE).providers(), home.sessions(**MACHINE)) == ({"work"}, [session])
            assert home.locks == ["machine"]
    assert before > 3
    assert after > 1


@pytest.mark.full
def test_where_one_passphrase_gives_way_to_another_both_open_the_log_until_the_new_one_is_used(
    home: Home,
) -> None:
    session = home.create()
    old, new = ({PASSPHRASE: a_secret()} for _ in range(2))
    home.stored().relock("passphrase", old[PASSPHRASE])
    after = 0
    for _ in deaths(home, lambda: home.stored(**old).relock("passphrase", new[PASSPHRASE])):
        try:
            home.stored(**new).encrypted.unlock()
        except BridleError:
            assert home.sessions(**old) == [session]
            continue
        after += 1
        if len(home.locks) == 2:
            assert home.sessions(**old) == [session], (
                "it is not used up by whoever has not heard of the new one"
            )
        assert home.sessions(**new) == [session]
        assert home.refusal(**old)[0] == "SessionsWrongKey"
    assert after > 1


BEGINS = (
    "import os; from bridle.app.user.stored_keys import session_store; store = session_store(os.environ); "
)
OPENS = f"{BEGINS} print(*(row.id for row in store.list()))"
CREATES = f"{BEGINS} print(store.create('/code', profile='default').session)"


def at_once(home: Home, *codes: str) -> list[str]:
    """Runs all of them in processes of their own; what they say, sorted."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env=home.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for code in codes
    ]
    ended = [process.communicate(timeout=60) for process in started]
    assert [err for _, err in ended if err] == []
    return sorted(out.strip() for out, _ in ended)


def test_several_processes_wrap_one_key_together(home: Home) -> None:
    session = home.create_plain()
    assert at_once(home, *[OPENS] * 6) == [session] * 6
    assert (home.locks, home.sessions()) == (["automatic"], [session])


def test_several_processes_begin_one_log_together(home: Home) -> None:
    assert at_once(home, *[CREATES] * 6) == sorted(home.sessions())
    assert len(home.sessions()) == 6


REKEYS = f"""{BEGINS}
from bridle.protocol.errors import BridleError
from bridle.sessions.repair import rekey
for _ in range(15):
    try:
        rekey.rekey(store.shelf.database)
    except BridleError as failure:
        assert failure.reason in ("SessionBusy", "StoreInUse"), failure.reason
"""
CREATES_ONE_BY_ONE = """
import os
from contextlib import closing
from bridle.app.user.stored_keys import session_store
for _ in range(15):
    with closing(session_store(os.environ)) as store, closing(store.create("/code", profile="default")) as log:
        print(log.session)
"""


def test_sessions_that_begin_while_the_data_key_is_changed_are_not_lost(home: Home) -> None:
    first = home.create()
    made = at_once(home, REKEYS, CREATES_ONE_BY_ONE, CREATES_ONE_BY_ONE)
    assert sorted(home.sessions()) == sorted(" ".join([first, *made]).split())
