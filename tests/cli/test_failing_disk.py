"""A disk that fails while something runs: the run ends, and says what had begun."""

import json
import os
import resource

import pytest

from cli_kit import Place

TOUCHES = "read line < go; echo made > made.txt"


@pytest.mark.parametrize("form", ["--stream-json", "--json", "text"])
def test_a_log_that_cannot_be_written_any_more_ends_the_run_and_says_what_had_begun(
    place: Place, form: str
) -> None:
    os.mkfifo(place.work / "go")
    model = place.script(f"call bash\n    command: {TOUCHES}\n---\nsay done\n")
    with place.started(
        "run", "-y", "-s", "off", *([form] if form != "text" else []), "-m", model, "x"
    ) as running:
        with open(place.work / "go", "w", encoding="utf-8") as go:  # opens when the command reads it
            resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
            go.write("go\n")
        ran = running.end()
    assert ran.code == 1
    assert "cannot write its log any more" in ran.err
    assert TOUCHES in ran.err.partition("Had begun, and may have happened: ")[2]
    assert "nothing was run" not in ran.err
    if form != "text":
        result = json.loads(ran.out.splitlines()[-1])
        assert (result["reason"], result["exit_code"], result["success"]) == ("StoreFailed", 1, False)
        assert TOUCHES in result["error"]["message"]
    place.verify(place.only_session())
