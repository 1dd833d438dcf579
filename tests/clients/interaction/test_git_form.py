"""The question of a git command on the line, what its keys answer, and what is said of what came of it."""

from __future__ import annotations

from bridle.clients.interaction.questions.change_forms import git_lines
from bridle.clients.interaction.questions.question_card import Decided, Edit, Question, answer_card, draw_card
from bridle.clients.interaction.questions.question_forms import ask_question
from bridle.protocol.events import GitEnded, GitRun, QuestionAsked
from bridle.protocol.questions import GitAnswer, GitFile, GitHook, GitQuestion
from tables import table

COMMIT = ("git", "commit", "--all", "--cleanup=whitespace", "--file=-")
ASKED = GitQuestion(
    deed="commit",
    cwd="/home/me/shop",
    commands=(COMMIT,),
    branch="fix-total",
    message="fix(cart): count what is bought twice\n\nThe total added each price once.",
    files=(GitFile(path="cart.py", did="changed"), GitFile(path="test_cart.py", did="added")),
    new_files=("notes.txt",),
    hooks=(GitHook(path=".husky/pre-commit", changed=True),),
)
BRANCH = GitQuestion(deed="branch", cwd="/shop", commands=(("git", "checkout", "-b", "x y", "--"),))


def question(asked: GitQuestion) -> Question:
    return ask_question(QuestionAsked(question_id="git_1", question=asked))


def rows(asked: GitQuestion, columns: int = 80) -> list[str]:
    return [row.text for row in draw_card(question(asked), columns=columns, rows=40)[1].rows]


def decided(asked: GitQuestion, line: str) -> Decided:
    card, _ = draw_card(question(asked), columns=80, rows=40)
    _, outcome = answer_card(card, line, columns=80)
    assert isinstance(outcome, Decided), outcome
    return outcome


def test_message_files_commands_and_hooks_stand_above_the_answers() -> None:
    assert rows(ASKED, 100) == [
        "Commit 2 files on fix-total?",
        "    fix(cart): count what is bought twice",
        "",
        "    The total added each price once.",
        "",
        "  changed  cart.py",
        "  added    test_cart.py",
        "  $ git commit --all --cleanup=whitespace --file=-",
        "  not in it, because git does not know it: notes.txt   (!git add FILE)",
        "  in /home/me/shop · as you, outside the sandbox · runs .husky/pre-commit (changed since the last",
        "    commit)",
        "  y commit · e edit the message · n no (Enter) · or say what to change",
    ]


@table("columns", [44, 80])
def test_nothing_is_wider_than_a_narrow_terminal(columns: int) -> None:
    assert max(map(len, rows(ASKED, columns))) <= columns


@table(
    ("asked", "line", "expected"),
    [
        (ASKED, "y", GitAnswer(choice="go")),
        (ASKED, "n", GitAnswer(choice="keep")),
        (ASKED, "", GitAnswer(choice="keep")),
        (ASKED, "no", GitAnswer(choice="keep")),
        (ASKED, "name the ticket", GitAnswer(choice="draft", text="name the ticket")),
        (BRANCH, "y", GitAnswer(choice="go")),
        (BRANCH, "not this one", GitAnswer(choice="keep")),
    ],
)
def test_every_key_has_one_meaning(asked: GitQuestion, line: str, expected: GitAnswer) -> None:
    assert decided(asked, line).answer == expected


def test_e_is_for_the_editor_first_and_an_answer_with_what_was_written() -> None:
    edit = decided(ASKED, "e").answer
    assert isinstance(edit, Edit)
    assert edit.text == ASKED.message
    assert edit.answer("fix: mine") == GitAnswer(choice="edit", text="fix: mine")


def test_without_a_message_there_is_nothing_to_say_yes_to() -> None:
    asked = GitQuestion(
        deed="commit", cwd="/shop", commands=(COMMIT,), files=ASKED.files, no_draft="No data from work."
    )
    assert [choice.key for choice in question(asked).form.choices] == ["e", "n"]
    assert "    (no message: No data from work.)" in rows(asked)
    assert any("No branch is checked out" in row for row in rows(asked))


def test_a_command_is_shown_as_a_shell_would_take_it() -> None:
    assert "  $ git checkout -b 'x y' --" in rows(BRANCH)


def test_a_failed_command_shows_the_end_of_what_it_said() -> None:
    output = "".join(f"line {number}\n" for number in range(30))
    ended = GitEnded(
        name="commit",
        runs=(GitRun(argv=COMMIT, exit_code=1, output=output),),
        reason="GitFailed",
        message="It failed.",
    )
    lines = git_lines(ended)
    assert lines[0] == "    … 18 lines before"
    assert lines[-2:] == ("    line 29", "It failed.")


@table(
    ("ended", "line"),
    [
        (GitEnded(name="branch", data={"branch": "fix"}), "branch   fix, checked out"),
        (
            GitEnded(name="commit", data={"commit": "4f2c1aa", "subject": "fix: it", "branch": "main"}),
            "commit   4f2c1aa fix: it    on main",
        ),
        (
            GitEnded(name="worktree", data={"branch": "x", "path": "../shop-x"}),
            "worktree ../shop-x on x    Work there: cd ../shop-x; bridle",
        ),
        (
            GitEnded(name="stash", data={"stash": "bridle: 2026-11-17 06:00:00"}),
            "stashed  bridle: 2026-11-17 06:00:00    Bring it back: !git stash pop",
        ),
        (
            GitEnded(name="commit-push-pr", data={"pull_request": "https://h.example/1", "existed": "yes"}),
            "request  https://h.example/1 (it was there already)",
        ),
    ],
)
def test_what_came_of_it_is_one_line(ended: GitEnded, line: str) -> None:
    assert git_lines(ended) == (line,)
