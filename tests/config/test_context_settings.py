"""How long a conversation may become: defaults, presets, files, variables, flags and code, in rising order."""

import pytest

from bridle.app.user.setting_sections import TABLE, load
from bridle.app.user.settings import session_settings
from bridle.config.origins import GivenOption
from bridle.config.settings_loading import CONTEXT_PRESETS
from bridle.context.context_settings import CompactionSettings
from bridle.protocol.commands import SessionOptions
from config.config_kit import Desk

BY_VARIABLE = {
    "BRIDLE_MAIN_MAX_CONTEXT_TOKENS": ("max_tokens", "30000", 30_000),
    "BRIDLE_MAIN_COMPACT_AT_RATIO": ("compact_at", "0.5", 0.5),
    "BRIDLE_MAIN_SUMMARY_TARGET_TOKENS": ("summary_tokens", "900", 900),
}


def compaction(desk: Desk, env: dict[str, str] | None = None, **options: object) -> CompactionSettings:
    """What a session is composed with."""
    given = SessionOptions(**options)  # type: ignore[arg-type]
    found = session_settings(given, where=desk.where, cwd=str(desk.workspace), env=env or {}).context
    return CompactionSettings(**{name: getattr(found, name) for name in CompactionSettings.__struct_fields__})


def test_without_settings_the_limit_is_what_the_model_takes(desk: Desk) -> None:
    assert compaction(desk) == CompactionSettings(
        max_tokens="auto",
        compact_at=0.7,
        recent_turns=6,
        max_messages=None,
        recent_messages=None,
        summary="auto",
        summary_tokens=3_000,
    )


@pytest.mark.requirement("C14")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "late",
            CompactionSettings(max_tokens="off", compact_at=0.9, recent_turns=3, summary="model"),
        ),
        (
            "messages",
            CompactionSettings(
                max_tokens="off", max_messages=100, recent_messages=10, summary="deterministic"
            ),
        ),
        (
            "fixed",
            CompactionSettings(
                max_tokens=48_000,
                compact_at=0.7,
                recent_turns=6,
                summary="deterministic",
                summary_tokens=3_000,
            ),
        ),
    ],
)
def test_a_preset_sets_values_that_belong_together(
    desk: Desk, name: str, expected: CompactionSettings
) -> None:
    assert compaction(desk, sets=(f"context.preset={name}",)) == expected
    desk.write("user/config.toml", f'[context]\npreset = "{name}"\n')
    assert compaction(desk) == expected


@pytest.mark.requirement("C14")
def test_whatever_somebody_wrote_goes_before_the_preset(desk: Desk) -> None:
    desk.write("user/config.toml", '[context]\npreset = "late"\nmax_tokens = 90000\nrecent_turns = 2\n')
    assert compaction(desk) == CompactionSettings(
        max_tokens=90_000, compact_at=0.9, recent_turns=2, summary="model"
    )
    tiers = desk.load(sets=("context.preset=fixed",))
    shown = {key: tiers.origin(f"context.{key}") for key in ("max_tokens", "summary_tokens", "compact_at")}
    assert {key: origin.shown for key, origin in shown.items() if origin} == {
        "max_tokens": "user config, line 3",
        "summary_tokens": "preset fixed",
        "compact_at": "preset fixed",
    }


def test_every_preset_sets_settings_there_are_to_values_they_take() -> None:
    kinds = {setting.key: setting.kind for setting in TABLE.settings}
    assert set(kinds["context.preset"].choices) == set(CONTEXT_PRESETS)
    for name, values in CONTEXT_PRESETS.items():
        for key, value in values.items():
            assert kinds[f"context.{key}"].accepts(value), (name, key)


@pytest.mark.requirement("D12.10")
def test_budgets_come_from_defaults_file_environment_flags_and_code_in_rising_order(desk: Desk) -> None:
    def limits(env: dict[str, str] | None = None, **given: object) -> list[int]:
        tiers = load(where=desk.where, cwd=str(desk.workspace), env=env or {}, **given)  # type: ignore[arg-type]
        return [tiers.checked().get(f"context.{key}") for key in ("max_tokens", "recent_turns")]

    env = {"BRIDLE_MAIN_MAX_CONTEXT_TOKENS": "30000"}
    sets = ("context.max_tokens=40000",)
    assert limits() == ["auto", 6]
    desk.write("user/config.toml", "[context]\nmax_tokens = 20000\nrecent_turns = 4\n")
    assert limits() == [20_000, 4]
    assert limits(env) == [30_000, 4]
    assert limits(env, sets=sets) == [40_000, 4]
    assert limits(env, sets=sets, options=[GivenOption("code", "context.max_tokens", 50_000)]) == [50_000, 4]


@pytest.mark.parametrize("variable", BY_VARIABLE)
def test_a_variable_sets_a_budget_of_the_main_agent(desk: Desk, variable: str) -> None:
    name, text, value = BY_VARIABLE[variable]
    assert getattr(compaction(desk, {variable: text}), name) == value


@pytest.mark.parametrize("variable", BY_VARIABLE)
def test_a_variable_that_is_no_budget_is_named_with_what_it_takes(desk: Desk, variable: str) -> None:
    name = BY_VARIABLE[variable][0]
    (told,) = desk.told(env={variable: "plenty"})
    assert told.startswith(f'{variable}: context.{name} = "plenty" is not ')


def test_a_variable_that_takes_text_stays_text(desk: Desk) -> None:
    assert desk.load(env={"BRIDLE_MODEL": "5"}).get("model") == "5"
    assert desk.load(env={"BRIDLE_MODEL": '"quoted"'}).get("model") == '"quoted"'


@pytest.mark.parametrize(
    ("older", "ours", "value"),
    [
        ("maxContextTokens", "max_tokens", 9_000),
        ("maxInputTokens", "max_tokens", 9_000),
        ("max_input_tokens", "max_tokens", 9_000),
        ("compactAtRatio", "compact_at", 0.5),
        ("compressAtRatio", "compact_at", 0.5),
        ("summaryTargetTokens", "summary_tokens", 700),
        ("recentTurns", "recent_turns", 2),
    ],
)
def test_older_names_of_budgets_are_understood(desk: Desk, older: str, ours: str, value: float) -> None:
    desk.write("user/settings.json", f'{{"context": {{"{older}": {value}}}}}')
    assert desk.told() == []
    assert getattr(compaction(desk), ours) == value


def test_an_older_name_beside_ours_is_written_twice(desk: Desk) -> None:
    desk.write("user/config.toml", "[context]\nmax_tokens = 9000\nmax_input_tokens = 8000\n")
    assert desk.told() == ["config.toml line 3: context.max_tokens is written twice."]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            'preset = "later"',
            'context.preset = "later" is not a preset of the context (late, messages, fixed)',
        ),
        ('max_tokens = "none"', 'context.max_tokens = "none" is not "auto", "off" or a whole number above 0'),
        (
            'summary = "nobody"',
            'context.summary = "nobody" is not a way to summarise (auto, model, deterministic)',
        ),
        ("summary_tokens = 0", "context.summary_tokens = 0 is not a whole number above 0"),
    ],
)
def test_a_slip_is_named_with_its_file_and_line(desk: Desk, line: str, told: str) -> None:
    desk.write("user/config.toml", f"[context]\n{line}\n")
    assert desk.told() == [f"config.toml line 2: {told}."]


def test_a_slip_in_the_form_of_transcripts_is_named_too(desk: Desk) -> None:
    desk.write("user/config.toml", '[transcript]\nformat = "yaml"\n')
    assert desk.told() == [
        'config.toml line 2: transcript.format = "yaml" is not a form of transcripts (off, events, envelope, chain).'
    ]


def test_a_project_cannot_have_transcripts_written(desk: Desk) -> None:
    desk.write("workspace/.bridle/config.toml", '[transcript]\nformat = "events"\n')
    assert desk.load().get("transcript.format") == "off"
    assert len(desk.told()) == 1
    assert "transcript.format (only your own config may set this)" in desk.told()[0]
