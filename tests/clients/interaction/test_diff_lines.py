"""A diff of git as lines on a screen."""

from hypothesis import given
from hypothesis import strategies as st

from bridle.base.text.terminal_text import visible
from bridle.clients.interaction.questions.question_card import Row
from bridle.clients.interaction.render.edit_rows import diff_rows

DIFF = """\
Changes since the last commit (git diff HEAD):

diff --git a/src/cart.py b/src/cart.py
index 1111111..2222222 100644
--- a/src/cart.py
+++ b/src/cart.py
@@ -1,2 +1,3 @@ def total(items):
 def total(items):
-    return sum(items)
+    if not items:  \n+\treturn 0\r
diff --git a/neü.txt b/neü.txt
new file mode 100644
index 0000000..e965047
--- /dev/null
+++ b/neü.txt
@@ -0,0 +1 @@
+--- a heading in the text
\\ No newline at end of file
diff --git a/old.txt b/old.txt
deleted file mode 100644
index e965047..0000000
--- a/old.txt
+++ /dev/null
@@ -1 +0,0 @@
-gone
diff --git a/logo.png b/logo.png
index 1111111..2222222 100644
Binary files a/logo.png and b/logo.png differ
diff --git a/a name.txt b/another.txt
similarity index 100%
rename from a name.txt
rename to another.txt
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755

New, not known to git: notes.md"""


def test_every_file_has_a_heading_and_its_lines() -> None:
    assert diff_rows(DIFF) == [
        Row("Changes since the last commit (git diff HEAD):"),
        Row(""),
        Row("src/cart.py   +2 -1", "title"),
        Row("@@ -1,2 +1,3 @@ def total(items):", "faint"),
        Row(" def total(items):"),
        Row("-    return sum(items)", "removed"),
        Row("+    if not items:··", "added"),
        Row("+    return 0⟨CR⟩", "added"),
        Row("neü.txt   +1 -0   [new file]", "title"),
        Row("@@ -0,0 +1 @@", "faint"),
        Row("+--- a heading in the text", "added"),
        Row("\\ No newline at end of file"),
        Row("old.txt   +0 -1   [deleted]", "title"),
        Row("@@ -1 +0,0 @@", "faint"),
        Row("-gone", "removed"),
        Row("logo.png   [binary]", "title"),
        Row("another.txt   [renamed]", "title"),
        Row("run.sh   [mode changed]", "title"),
        Row(""),
        Row("New, not known to git: notes.md"),
    ]


@given(st.text(st.sampled_from("+- @\\\n\t\x1b\u202eadif-g t/b\0\r")) | st.text())
def test_no_text_breaks_it_and_nothing_in_it_is_obeyed(text: str) -> None:
    for row in diff_rows(text):
        assert row.text == visible(row.text, newlines=False)
        assert "\t" not in row.text
