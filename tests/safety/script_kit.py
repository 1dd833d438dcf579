"""Scripts as `understand` describes them, from a table of what programs do. For tests that are about what follows."""

import re
import shlex

from bridle.base.command_class import CommandClass
from bridle.shell.command_facts import SEVERITY, Part, PathUse, Understanding

CLASSES: dict[str, CommandClass] = {
    "ls": "read_only", "cat": "read_only", "tail": "read_only", "cd": "read_only", "git": "read_only",
    "touch": "writes", "cp": "writes", "curl": "network", "npm": "executes", "make": "executes",
    "rm": "destructive",
}  # fmt: skip
ACCESS = {"touch": "write", "cp": "write", "rm": "delete"}


def understood(command: str, _cwd: str = "") -> Understanding:
    """Programs of the table joined by `;`, `&&` and `|`, with plain words and `> file`; the rest is unparseable."""
    texts = [text.strip() for text in re.split(r"&&|\|\||;|\||\n", command) if text.strip()]
    parts = [_part(text) for text in texts]
    strange = re.search(r"[`$(){}&]", command.replace("&&", "").replace("2>&1", "")) is not None
    classes = [part.command_class for part in parts]
    worst = max(classes, key=SEVERITY.index, default="read_only")
    joined = "pipeline" if "|" in command and not re.search(r";|&&|\|\||\n", command) else "compound"
    return Understanding(
        command=command,
        shape="simple" if len(parts) == 1 and not strange else joined,
        parts=tuple(parts),
        command_class="unparseable" if strange else worst,
    )


def _part(text: str) -> Part:
    """As a parser sees it: redirections are no words, and not part of the text."""
    plain, arrow, target = re.sub(r"\s*(2>&1|&$)", "", text).partition(">")
    plain, target = plain.strip(), target.strip()
    try:
        words = shlex.split(plain)
    except ValueError:
        words = []
    program = next((word for word in words if "=" not in word), "")
    given = (
        [word for word in words[words.index(program) + 1 :] if not word.startswith("-")] if program else []
    )
    found = CLASSES.get(program, "executes")
    uses = [PathUse(path=word, access=ACCESS.get(program, "read")) for word in given if program in FILES]
    if arrow and target != "/dev/null":
        uses.append(PathUse(path=target, access="write"))
        found = max(found, "writes", key=SEVERITY.index)
    return Part(
        text=plain,
        words=tuple(None if "$" in word else word for word in words),
        command_class=found,
        does=f"{program} does it",
        key=" ".join(words[:2]) if program in ("npm", "git") and len(words) > 1 else program or None,
        uses=tuple(uses),
    )


FILES = frozenset({"cat", "tail", "touch", "cp", "rm", "ls", "cd"})
