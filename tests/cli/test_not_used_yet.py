"""Settings that nothing uses yet: they may be written, and whoever writes one is told. And `run --profile`."""

import pytest

from bridle.protocol.events import Notice, SessionCreated
from cli_kit import Place

UNUSED = '[ui]\ntheme = "dark"\nquiet_cost = true\n'


def write_own(place: Place, text: str) -> None:
    folder = place.home / ".config/bridle"
    (folder / "profiles").mkdir(parents=True)
    (folder / "config.toml").write_text(text)


def test_validate_names_settings_that_are_not_used_yet(place: Place) -> None:
    write_own(place, UNUSED)
    ran = place.bridle("config", "validate")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "warn   config.toml line 2: ui.theme is not used yet (it comes with the full-screen client).",
        "warn   config.toml line 3: ui.quiet_cost is not used yet (it comes with the full-screen client).",
        "0 errors, 2 warnings.",
    ]


def test_a_run_says_once_and_in_one_sentence_which_settings_are_not_used_yet(place: Place) -> None:
    write_own(place, UNUSED)
    ran = place.bridle("run", "-m", place.script("say Hi.\n"), "--sandbox", "off", "go")
    told = [line for line in ran.story if "used yet" in line]
    assert told == ["Not used yet, so without effect: ui.theme, ui.quiet_cost."]
    notices = [e.event for e in place.events(place.only_session()) if isinstance(e.event, Notice)]
    assert [notice.reason for notice in notices].count("NotUsedYet") == 1


def test_who_sets_nothing_of_the_kind_is_told_nothing(place: Place) -> None:
    write_own(place, "[permissions]\ntimeout_s = 5\n")
    assert place.bridle("config", "validate").out.startswith("Nothing is wrong.")
    ran = place.bridle("run", "-m", place.script("say Hi.\n"), "--sandbox", "off", "go")
    assert "used yet" not in ran.err


@pytest.mark.requirement("G38.3", "G38.4")
def test_the_profile_of_a_run_is_applied_and_stands_in_the_log(place: Place) -> None:
    write_own(place, "")
    (place.home / ".config/bridle/profiles/mine.toml").write_text('mode = "plan"\n')
    ran = place.bridle("run", "--profile", "mine", "-m", place.script("say Hi.\n"), "--sandbox", "off", "go")
    assert ran.code == 0
    (begun,) = (e.event for e in place.events(place.only_session()) if isinstance(e.event, SessionCreated))
    assert (begun.profile, begun.mode) == ("mine", "plan")
    wrong = place.bridle("run", "--profile", "min", "-m", "demo", "go")
    assert (wrong.code, wrong.story) == (
        2,
        ['profile: there is no profile "min" (nearest: mine; there are careful, default, mine, t-compat).'],
    )


def test_validate_names_what_the_settings_of_a_server_get_wrong(place: Place) -> None:
    write_own(place, '[mcp_servers.far]\nurl = "http://127.0.0.1:9/"\nsandbox = "off"\n')
    ran = place.bridle("config", "validate")
    assert ran.code == 2
    assert (
        ran.out.splitlines()[0]
        == "error  config.toml line 3: mcp_servers.far.sandbox: it goes with a command."
    )


def test_of_a_section_that_is_used_only_what_is_not_is_named(place: Place) -> None:
    write_own(place, '[ui]\nnotify = true\ntheme = "dark"\n')
    ran = place.bridle("config", "validate")
    assert ran.out.splitlines() == [
        "warn   config.toml line 3: ui.theme is not used yet (it comes with the full-screen client).",
        "0 errors, 1 warning.",
    ]
