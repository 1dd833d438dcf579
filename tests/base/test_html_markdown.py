"""Web pages as Markdown: what is kept, what is dropped, and that no page takes more than its length."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.base.text.html_markdown import MAX_TAGS, to_markdown
from bridle.base.text.html_tokens import CloseTag, HtmlText, OpenTag, tokens
from effort import examples
from tables import table

URL = "https://example.com/docs/page.html"


def markdown(html: str) -> str:
    return to_markdown(html, URL).text


@table(
    ("html", "text"),
    [
        ("<h1>One</h1><h3>Three\n  lines</h3>", "# One\n\n### Three lines"),
        ("<p>a\n b<p>c<br>d", "a b\n\nc\nd"),
        ("<div>a<div>b</div>c</div>", "a\n\nb\n\nc"),
        ("a &amp; b &lt;c&gt; &#65;&#x42; &nbsp; d", "a & b <c> AB d"),
        ("1 < 2 and 3 <4", "1 < 2 and 3 <4"),
        ("<b>bold</b> and <i>thin</i>", "bold and thin"),
        # links
        ('<a href="/a">x</a>', "[x](https://example.com/a)"),
        ('<a href="b?c#d"> x <b>y</b> </a>z', "[x y](https://example.com/docs/b?c#d)z"),
        ('see <a href="//o.example/p">o</a>.', "see [o](https://o.example/p)."),
        ('<a href="https://e.example/(x)">x</a>', "[x](https://e.example/%28x%29)"),
        ('<a href="javascript:alert(1)">x</a>', "x"),
        ('<a href="data:text/html,x">x</a> <a href="#y">y</a> <a name=z>z</a>', "x y z"),
        ('<a href="http://[bad">x</a>', "x"),
        ('<a href="mailto:a@b.example">x</a>', "[x](mailto:a@b.example)"),
        ('<a href="/a"><div>block</div></a>', "[block](https://example.com/a)"),
        ('<a href="/a">one<a href="/b">two', "[one](https://example.com/a)[two](https://example.com/b)"),
        ('<base href="https://o.example/x/"><a href="y">z</a>', "[z](https://o.example/x/y)"),
        ('<head><base href="https://o.example/x/"></head><a href="y">z</a>', "[z](https://o.example/x/y)"),
        # lists
        ("<ul><li>a<li>b</ul>", "- a\n- b"),
        ("<p>x<ol start=3><li>a</li><li>b</li></ol>y", "x\n\n3. a\n4. b\n\ny"),
        ("<ul><li>a<ul><li>b</ul><li>c</ul>", "- a\n  - b\n- c"),
        ("<ul><li><p>a</p><p>b</p></ul>", "- a\n\n  b"),
        ("<dl><dt>a<dd>b</dl>", "a\n\nb"),
        # code
        ("use <code>f( x )</code>", "use `f( x )`"),
        ("<pre>a\n  b\n\n</pre>", "```\na\n  b\n```"),
        ('<pre><code class="language-py">x = "&lt;"\n</code></pre>', '```\nx = "<"\n```'),
        ('<pre class="lang-js">a<span>b</span><br>c</pre>', "```js\nab\nc\n```"),
        ("<pre>```</pre>", "````\n```\n````"),
        # tables
        (
            "<table><thead><tr><th>a<th>b<tbody><tr><td>1<td><p>2</p><p>|</p></table>",
            "| a | b |\n| --- | --- |\n| 1 | 2 \\| |",
        ),
        ("<table><tr><td>only<tr><td>one</table>", "only\n\none"),
        ("<table><tr><td><a href=/x>l</a><td><code>c</code>", "| [l](https://example.com/x) | `c` |\n| --- | --- |"),
        # quotes and rules
        ("<blockquote><p>a<p>b</blockquote>c", "> a\n\n> b\n\nc"),
        ("a<hr>b", "a\n\n---\n\nb"),
        # pictures are words
        ('<img src="http://e.example/p.png?q=secret" alt="a  cat">', "[image: a cat]"),
        ('<img src="x.png">', ""),
        # what nobody sees
        ("<script>a<b></script><style>c</style>d", "d"),
        ("a<!-- <p>b -->c<!doctype x><?php d ?>", "ac"),
        ("<p hidden>a<p>b", "b"),
        ('<div style="color:red; DISPLAY : none"><p>a</div>b', "b"),
        ('<span aria-hidden="true">a</span>b', "b"),
        ("<div hidden>a<div>b</div>c</div>d", "d"),
        ("<template><p>a</template><noscript>b</noscript><svg><title>c</title></svg>d", "d"),
        ("<select><option>a</select><textarea>b</textarea>c", "c"),
        ("a\u200bb\U000e0041c\x1b[31m", "abc[31m"),
        # what is broken
        ("<p>a<script>b", "a"),
        ("a</div></p>b", "ab"),
        ("a<p class='", "a"),
        ("<td>a<li>b<tr>c", "a\n\n- b\n\nc"),
        (f"&#{'9' * 5000}; &#x{'f' * 5000};", "\ufffd \ufffd"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_page_is_read_as_markdown(html: str, text: str) -> None:
    assert markdown(html) == text


def test_the_title_stands_by_itself() -> None:
    page = to_markdown("<head><title>A &amp;\n B</title><meta x></head><body><p>c", URL)
    assert (page.title, page.text) == ("A & B", "c")
    assert to_markdown("<title>a<p>b</title>c", URL).title == "a<p>b"


def test_tags_are_read_with_their_attributes() -> None:
    assert list(tokens("x<A HREF='1' b=2 c d=\"3\" href=4/>y</a >&eacute;")) == [
        HtmlText("x"),
        OpenTag("a", {"href": "1", "b": "2", "c": "", "d": "3"}),
        HtmlText("y"),
        CloseTag("a"),
        HtmlText("é"),
    ]


TAGS = """
<p> <p/hidden> </p> <div> </div> <ul> <ol/start=9> <li> </li> </ul> </ol> <table> <tr> <td> <th> </td> </tr> </table>
<pre> </pre> <code> </code> <a/href=x> <a> </a> <h2> </h2> <br> <hr> <img/alt=x> <blockquote> </blockquote> <script>
</script> <title> </title> <svg> </svg> <!-- --> <! <? </ < > & &#9; &# " ' = `
"""
pieces = st.lists(st.one_of(st.sampled_from(TAGS.split()), st.text(max_size=8)), max_size=60)


@given(pieces)
@settings(max_examples=examples(400))
def test_any_text_is_a_page(parts: list[str]) -> None:
    html = "".join(parts)
    page = to_markdown(html, URL)
    assert len(page.text) <= 120 * (len(html) + 1)
    assert "\0" not in page.text


@given(st.text(alphabet="<>/!-?ab =\"'&#;x1\n", max_size=200))
def test_any_text_has_tokens(html: str) -> None:
    assert sum(len(token.text) for token in tokens(html) if isinstance(token, HtmlText)) <= 4 * len(html) + 4


HOSTILE = [
    "<div>x", "<blockquote>x", "<ul><li>x", "<", "<!--", "<!", "</", "<a href='x'>x", "<table><tr><td>x", "&#", "&amp",
    '<p a=" ', "<p a=' ", "<script>", "<title>", "</p>", "<td>x", "<pre>x", "<code>", "<p hidden>x", "<br>", "<select>",
]  # fmt: skip


@table("piece", HOSTILE)
def test_a_page_grows_no_faster_than_what_it_is_made_of(piece: str) -> None:
    small, large = (len(to_markdown(piece * count, URL).text) for count in (500, 5_000))
    assert large <= 12 * small + 500


def test_a_page_with_more_tags_than_anybody_reads_is_cut() -> None:
    page = to_markdown("<b>x" * (MAX_TAGS + 10), URL)
    assert (page.cut, len(page.text)) == (True, MAX_TAGS)
