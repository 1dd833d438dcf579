"""Questions as a person reads them: whole, with what each answer remembers, at two widths."""

import pytest

from bridle.clients.interaction.questions.permission_form import Setting, permission_question
from bridle.clients.interaction.questions.question_card import (
    Choice,
    Decided,
    Form,
    Hint,
    Outcome,
    Question,
    Row,
    Show,
    answer_card,
    draw_card,
)
from bridle.clients.interaction.questions.question_forms import ask_question
from bridle.clients.interaction.session.question_queue import QuestionQueue
from bridle.protocol.commands import AnswerQuestion
from bridle.protocol.events import CommandPart, FileChange, Offer, PermissionRequested, QuestionAsked, Risk
from bridle.protocol.questions import OpenQuestion, PlanAnswer, PlanQuestion, WordsAnswer
from bridle.tools.patches.foreseen_changes import file_change
from clients.line.line_kit import check_golden
from tables import table

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
HERE = Setting(folder="~/code/shop", sandbox="sandbox on", network="network on")
BECAUSE: dict[Risk, str] = {
    "read": "it is outside this folder",
    "write": "it changes files",
    "shell": "it runs code",
    "network": "it connects to the network",
    "dangerous": "it deletes files",
}


def asked(
    tool: str,
    risk: Risk = "shell",
    setting: Setting = HERE,
    *,
    parts: tuple[CommandPart, ...] = (),
    offers: tuple[Offer, ...] | None = None,
    because: str = "",
    changes: tuple[FileChange, ...] = (),
    **given: object,
) -> Question:
    subject = str(given.get("command", given.get("path", "")))
    request = PermissionRequested(
        call_id="call_1",
        tool=tool,
        input=given,
        risk=risk,
        why=WHY,
        digest="d",
        because=because or BECAUSE[risk],
        parts=parts,
        offers=literally(tool, subject) if offers is None else offers,
        changes=changes,
    )
    return permission_question(request, setting)


def literally(tool: str, subject: str) -> tuple[Offer, ...]:
    """What is offered about exactly this command or path."""
    tool = "edit" if tool in ("write_file", "edit_file") else tool
    whole = Offer(answer="tool", tool=tool)
    if not subject:
        return (whole,)
    exactly = Offer(answer="pattern", tool=tool, pattern=subject)
    return (exactly, whole, Offer(answer="always", tool=tool, pattern=subject, days=7))


def text(question: Question, columns: int, rows: int = 0, position: str = "") -> str:
    _, show = draw_card(question, columns=columns, rows=rows, position=position)
    return "".join(f"{row.text}\n" for row in show.rows)


BUILD = "rm -rf build && npm run build"
BUILD_PARTS = (
    CommandPart(
        text="rm -rf build", command_class="destructive", does="deletes build/ (214 files; undo keeps them)"
    ),
    CommandPart(text="npm run build", command_class="executes", does="runs a script from package.json"),
)
TEST_KEY = Offer(answer="pattern", tool="bash", pattern="npm test", match="key")


QUESTIONS = {
    "question-command": asked("bash", "dangerous", parts=BUILD_PARTS, command=BUILD),
    "question-command-simple": asked(
        "bash",
        parts=(
            CommandPart(
                text="npm test -- --ci", command_class="executes", does="runs a script from package.json"
            ),
        ),
        offers=(TEST_KEY, *literally("bash", "npm test -- --ci")[1:]),
        command="npm test -- --ci",
    ),
    "question-command-escalates": asked(
        "bash",
        offers=(),
        because="it asks to run outside the sandbox",
        command="npm install",
        escalate="the registry is not reachable inside",
    ),
    "question-command-long-line": asked(
        "bash", command="for file in *.py; do python -m tokenize $file | sort | uniq -c | sort -n; done"
    ),
    "question-command-hidden-characters": asked(
        "bash", command="echo a\u200bb\x1b[2J\techo\nsecond", workdir="web"
    ),
    "question-command-not-kept": asked(
        "bash", setting=Setting(folder="~/code/shop"), offers=(TEST_KEY,), command="npm test"
    ),
    "question-edit": asked(
        "write_file",
        "write",
        changes=(file_change("src/cart.py", OLD, NEW),),
        path="src/cart.py",
        content=NEW,
    ),
    "question-replace": asked(
        "edit_file",
        "write",
        changes=(file_change("src/cart.py", OLD, OLD.replace("i.price for", "i.price * i.count for")),),
        path="src/cart.py",
        old_string="sum(i.price for i in items)",
        new_string="sum(i.price * i.count for i in items)",
    ),
    "question-replace-unseen-file": asked(
        "edit_file", "write", path="a.py", old_string="one\ntwo", new_string="three", replace_all=True
    ),
    "question-new-file": asked(
        "write_file",
        "write",
        changes=(file_change("src/new.py", None, "x = 1\ny = 2\n"),),
        path="src/new.py",
        content="x = 1\ny = 2\n",
    ),
    "question-patch": asked(
        "apply_patch",
        "write",
        offers=(Offer(answer="tool", tool="edit"),),
        changes=(
            file_change("src/cart.py", OLD, NEW),
            file_change("src/money.py", None, "def euros(cents):\n    return cents / 100\n"),
            file_change("src/old.py", "x = 1\n", None),
            file_change("src/b.py", "y = 1\n", "y = 2\n", kind="move", moved_from="src/a.py"),
        ),
        patch="*** Begin Patch",
    ),
    "question-patch-that-does-not-fit": asked(
        "apply_patch",
        "write",
        offers=(),
        patch="--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-one\n+two\n",
    ),
    "question-whole-file": asked("write_file", "write", HERE, path="src/cart.py", content="x = 1\n"),
    "question-policy-file": asked(
        "write_file",
        "dangerous",
        changes=(file_change("AGENTS.md", None, "Run everything.\n"),),
        offers=(Offer(answer="pattern", tool="edit", pattern="AGENTS.md"),),
        because="it changes a policy file",
        path="AGENTS.md",
        content="Run everything.\n",
    ),
    "question-read": asked("read_file", "read", path="/etc/hosts"),
    "question-other-tool": asked("mcp__git__push", "network", remote="origin", force=True, note="two\nlines"),
    "question-in-words": ask_question(
        QuestionAsked(
            question_id="q_1",
            question=OpenQuestion(text="Which database?\nBoth work.", choices=("SQLite", "Postgres")),
        )
    ),
}


@pytest.mark.requirement("D13.32")
@table("columns", [44, 80, 100])
@table("name", QUESTIONS)
def test_a_question_reads_like_this(name: str, columns: int) -> None:
    shown = text(QUESTIONS[name], columns)
    check_golden(name, columns, shown)


@table("columns", [44, 80, 100])
def test_a_long_command_is_shown_in_pages(columns: int) -> None:
    question = asked("bash", command="\n".join(f"echo {number}" for number in range(60)))
    check_golden("question-command-pages", columns, text(question, columns, rows=20, position="1 of 2"))


@pytest.mark.requirement("D11.43")
def test_everything_that_is_approved_is_on_the_screen() -> None:
    question = asked("bash", command="echo " + "x" * 300 + " && rm -rf /")
    rows = text(question, 44).splitlines()
    assert "rm -rf /" in "".join(row.strip().removeprefix("↳ ") for row in rows)
    assert all(len(row) <= 44 for row in rows)
    assert "Allow read_file: /etc/hosts?" in text(QUESTIONS["question-read"], 100)


def test_an_answer_that_is_wider_than_the_screen_is_broken_between_words() -> None:
    change = file_change("cart.py", "a\n", "b\n")
    question = asked("edit_file", "write", changes=(change,), path="cart.py", old_string="a", new_string="b")
    rows = text(question, 20).splitlines()
    assert all(len(row) <= 20 for row in rows)
    assert "    session" in rows


def test_no_argument_is_approved_unseen() -> None:
    question = asked("bash", command="sleep 9", background=True, timeout_ms=5, workdir="web")
    shown = text(question, 100)
    assert "background: true · timeout_ms: 5" in shown
    assert "in ~/code/shop/web" in shown
    edit = asked("write_file", "write", path="a", content="", mode="0777")
    assert "mode: 0777" in text(edit, 100)


@pytest.mark.requirement("D17.2")
def test_an_answer_is_there_only_where_the_question_offers_it() -> None:
    keys = {
        name: "".join(choice.key for choice in question.form.choices) for name, question in QUESTIONS.items()
    }
    assert keys["question-command"] == "ypatn"
    assert keys["question-command-not-kept"] == "ypn"
    assert keys["question-command-escalates"] == "yn"
    assert keys["question-policy-file"] == "ypn"
    assert keys["question-other-tool"] == "ytn"


def test_what_two_files_would_be_remembered_as_is_said_for_both() -> None:
    offers = tuple(Offer(answer="pattern", tool="edit", pattern=path) for path in ("a.py", "b.py"))
    question = asked("apply_patch", "write", offers=offers, patch="…")
    assert "p a.py, b.py this session" in text(question, 100)


def test_the_parts_of_a_command_are_shown_without_its_tricks() -> None:
    part = CommandPart(text="echo \x1b[2J\n" + "x" * 90, command_class="read_only", does="says \u202eso")
    rows = text(asked("bash", parts=(part, part), command="echo"), 100).splitlines()
    assert sum("⟨ESC⟩" in row and "⟨U+202E⟩" in row for row in rows) == 2
    assert all(len(row) <= 100 for row in rows)


def test_a_change_that_no_line_shows_is_said() -> None:
    question = asked(
        "write_file",
        "write",
        changes=(file_change("a.py", "x = 1", "x = 1\n"),),
        path="a.py",
        content="x = 1\n",
    )
    assert [row.text for row in question.form.body] == ["    …    only the end of the file changes"]


@pytest.mark.requirement("D13.32")
def test_a_change_says_how_many_lines_come_and_go() -> None:
    assert QUESTIONS["question-edit"].form.title == "Change src/cart.py?   +3 \u22121"


def test_letters_that_look_like_others_are_written_out_and_said() -> None:
    part = CommandPart(text="\u0455udo rm a", command_class="executes", does="runs a program")
    rows = text(asked("bash", parts=(part, part), command="\u0455udo rm a\u2215b"), 100)
    assert "    ⟨U+0455⟩udo rm a⟨U+2215⟩b\n" in rows
    assert "├ ⟨U+0455⟩udo rm a" in rows
    assert "  ⟨U+0455⟩ looks like s, ⟨U+2215⟩ looks like /\n" in rows
    assert "\u0455" not in rows


@table(
    ("tool", "given"),
    [
        ("write_file", {"path": "c\u043enfig", "content": "x"}),
        ("write_file", {"path": "a", "content": "if us\u0435r == a:\n"}),
        ("edit_file", {"path": "a", "old_string": "a", "new_string": "us\u0435r"}),
        ("read_file", {"path": "/c\u043enfig"}),
        ("web_fetch", {"url": "https://g\u0456thub.com/"}),
        ("bash", {"command": "ls", "workdir": "c\u043ede"}),
        ("bash", {"command": "echo a\u0301\u0301\u0301\u0301"}),
    ],
)
def test_every_part_of_a_question_writes_them_out(tool: str, given: dict[str, str]) -> None:
    offer = Offer(answer="always", tool=tool, pattern="c\u043enfig", days=7)
    rows = text(asked(tool, "write", offers=(offer,), **given), 100)
    assert not [letter for letter in "\u043e\u0435\u0456" if letter in rows]
    assert "\u0301\u0301\u0301" not in rows
    assert "⟨U+0" in rows


def test_other_languages_are_not_written_out() -> None:
    command = "cat 'Отчёт за год.txt' Größe.md 日本語.txt cafe\u0301"
    assert command in text(asked("bash", command=command), 200)


def typed(question: Question, *lines: str, rows: int = 40) -> Outcome:
    """What the last of these lines comes to at the question's card."""
    card, outcome = draw_card(question, columns=80, rows=rows)
    for line in lines:
        card, outcome = answer_card(card, line, columns=80)
    return outcome


def test_a_new_question_kind_is_one_form() -> None:
    """The card draws any form, and the answer of a choice is sent as it stands in the form."""
    form = Form(
        title="Deploy?",
        body=(Row("to staging"),),
        choices=(Choice("g", "go", WordsAnswer(text="deploy")), Choice("n", "no", WordsAnswer(text="keep"))),
        inline=True,
        refusal=WordsAnswer(text="keep"),
    )
    question = Question(id="q_1", form=form)
    assert text(question, 80) == "Deploy?\nto staging\n  g go · n no\n"
    decided = typed(question, "g")
    assert decided == Decided(question=question, answer=WordsAnswer(text="deploy"))
    queue = QuestionQueue("s")
    queue.arrived(question)
    assert queue.answer(question, decided.answer) == [
        AnswerQuestion(session="s", question_id="q_1", answer=WordsAnswer(text="deploy"))
    ]


def test_a_plan_longer_than_the_screen_is_read_to_its_end_before_it_is_approved() -> None:
    plan = PlanQuestion(plan="\n".join(f"step {number}" for number in range(60)))
    question = ask_question(QuestionAsked(question_id="q_1", question=plan))
    assert isinstance(typed(question, "1", rows=20), Hint)
    shown = typed(question, "", "v", "", "", rows=20)
    assert isinstance(shown, Show)
    assert [row.text for row in shown.rows[-2:]] == ["  1  go ahead", "  2  keep planning"]
    for line in ("1", "go ahead"):
        decided = typed(question, "", "", "", "", line, rows=20)
        assert decided == Decided(question=question, answer=PlanAnswer(approve=True))
    note = PlanAnswer(approve=False, note="v is for later")
    assert typed(question, "v is for later", rows=20) == Decided(question=question, answer=note)
