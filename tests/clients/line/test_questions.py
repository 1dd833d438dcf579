"""Questions as a person reads them: whole, with what each answer remembers, at two widths."""

import pytest

from bridle.clients.line.card import drawn
from bridle.clients.line.questions import Question, Setting, open_question, permission_question
from bridle.protocol.events import PermissionRequested, QuestionAsked, Risk
from clients.line.line_kit import check_golden

WHY = "mode=default tool=bash risk=shell action=ask; decided_by=mode"
OLD = "\n".join(
    [
        "import money",
        *[f"# line {number}" for number in range(2, 40)],
        *("", "def total(items):", "    return sum(i.price for i in items)"),
        *("", "def count(items):", "    return len(items)", ""),
    ]
)
NEW = OLD.replace(
    "    return sum(i.price for i in items)",
    "    if not items:\n        return 0\n    return sum(i.price * i.count for i in items)",
)
HERE = Setting(folder="~/code/shop", sandbox="sandbox: none", saved_days=7)


def asked(tool: str, risk: Risk = "shell", setting: Setting = HERE, **given: object) -> Question:
    request = PermissionRequested(call_id="call_1", tool=tool, input=given, risk=risk, why=WHY, digest="d")
    return permission_question(request, setting)


def text(question: Question, columns: int, rows: int = 0, position: str = "") -> str:
    _, show = drawn(question, columns=columns, rows=rows, position=position)
    return "".join(f"{row.text}\n" for row in show.rows)


def with_file(content: str | None) -> Setting:
    return Setting(folder="~/code/shop", saved_days=7, before=lambda _path: content)


QUESTIONS = {
    "question-command": asked("bash", command="rm -rf build && npm run build"),
    "question-command-long-line": asked(
        "bash", command="for file in *.py; do python -m tokenize $file | sort | uniq -c | sort -n; done"
    ),
    "question-command-hidden-characters": asked(
        "bash", command="echo a\u200bb\x1b[2J\techo\nsecond", workdir="web"
    ),
    "question-command-not-kept": asked("bash", setting=Setting(folder="~/code/shop"), command="npm test"),
    "question-edit": asked("write_file", "write", with_file(OLD), path="src/cart.py", content=NEW),
    "question-replace": asked(
        "edit_file",
        "write",
        with_file(OLD),
        path="src/cart.py",
        old_string="sum(i.price for i in items)",
        new_string="sum(i.price * i.count for i in items)",
    ),
    "question-replace-unseen-file": asked(
        "edit_file", "write", path="a.py", old_string="one\ntwo", new_string="three", replace_all=True
    ),
    "question-new-file": asked(
        "write_file", "write", with_file(None), path="src/new.py", content="x = 1\ny = 2\n"
    ),
    "question-whole-file": asked("write_file", "write", HERE, path="src/cart.py", content="x = 1\n"),
    "question-read": asked("read_file", "read", path="/etc/hosts"),
    "question-other-tool": asked("mcp__git__push", "network", remote="origin", force=True, note="two\nlines"),
    "question-in-words": open_question(
        QuestionAsked(
            question_id="q_1", question="Which database?\nBoth work.", choices=("SQLite", "Postgres")
        )
    ),
}


@pytest.mark.parametrize("columns", [44, 100])
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_reads_like_this(name: str, columns: int) -> None:
    shown = text(QUESTIONS[name], columns)
    check_golden(name, columns, shown)


@pytest.mark.parametrize("columns", [44, 100])
def test_a_long_command_is_shown_in_pages(columns: int) -> None:
    question = asked("bash", command="\n".join(f"echo {number}" for number in range(60)))
    check_golden("question-command-pages", columns, text(question, columns, rows=20, position="1 of 2"))


def test_everything_that_is_approved_is_on_the_screen() -> None:
    question = asked("bash", command="echo " + "x" * 300 + " && rm -rf /")
    rows = text(question, 44).splitlines()
    assert "rm -rf /" in "".join(row.strip().removeprefix("↳ ") for row in rows)
    assert all(len(row) <= 44 for row in rows)
    assert "Allow read_file: /etc/hosts?" in text(QUESTIONS["question-read"], 100)


def test_no_argument_is_approved_unseen() -> None:
    question = asked("bash", command="sleep 9", background=True, timeout_ms=5, workdir="web")
    shown = text(question, 100)
    assert "background: true · timeout_ms: 5" in shown
    assert "in ~/code/shop/web" in shown
    edit = asked("write_file", "write", path="a", content="", mode="0777")
    assert "mode: 0777" in text(edit, 100)


def test_the_answer_that_keeps_a_yes_is_offered_only_where_it_is_kept() -> None:
    kept, not_kept = QUESTIONS["question-command"], QUESTIONS["question-command-not-kept"]
    assert "a" in [choice.key for choice in kept.choices]
    assert "a" not in [choice.key for choice in not_kept.choices]


def test_a_change_that_no_line_shows_is_said() -> None:
    question = asked("write_file", "write", with_file("x = 1"), path="a.py", content="x = 1\n")
    assert [row.text for row in question.body] == ["    …    only the end of the file changes"]


def test_a_change_says_how_many_lines_come_and_go() -> None:
    assert QUESTIONS["question-edit"].title == "Change src/cart.py?   +3 \u22121"
