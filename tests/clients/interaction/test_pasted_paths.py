"""Paths of images that a terminal pastes: read as what they name, or left as text."""

from bridle.clients.interaction.composer.composer import Composer, Picture, Send, press, shown, with_pictures
from bridle.clients.interaction.composer.keys import Paste, Press, Text
from bridle.clients.interaction.session.key_router import KeyRouter, pictures_in
from bridle.protocol.errors import UsageError
from bridle.protocol.messages import ImageBlock
from tables import table

THERE = {"/a/cart.png", "/a/b c.png", "shot.JPG", "/it's.png"}


def picture(path: str) -> Picture | None:
    return Picture(f"[image {path}]", ImageBlock(url=path)) if path in THERE else None


@table(
    ("pasted", "paths"),
    [
        ("/a/cart.png", ["/a/cart.png"]),
        ("/a/cart.png\n", ["/a/cart.png"]),
        ("'/a/b c.png'", ["/a/b c.png"]),
        ("/a/b c.png\n", ["/a/b c.png"]),
        ('"/a/b c.png" ', ["/a/b c.png"]),
        ("/a/b\\ c.png", ["/a/b c.png"]),
        ("file:///a/b%20c.png", ["/a/b c.png"]),
        ("shot.JPG /a/cart.png", ["shot.JPG", "/a/cart.png"]),
        ("/it's.png", ["/it's.png"]),
        ("/a/missing.png", []),
        ("look at /a/cart.png", []),
        ("/a/cart.py", []),
        ("", []),
        ("x.png " * 2000, []),
    ],
)
def test_a_paste_that_names_only_images_is_images(pasted: str, paths: list[str]) -> None:
    assert [one.block.url for one in pictures_in(pasted, picture)] == paths


def test_an_image_is_one_cell_and_goes_with_the_message() -> None:
    router = KeyRouter(Composer(), picture=picture)
    router.press((Text("see "), Paste("/a/cart.png"), Text("there")), now_s=0, columns=80)
    assert shown(router.composer.cells) == "see [image /a/cart.png] there"
    (send,) = router.press((Press("enter"),), now_s=0, columns=80)
    assert isinstance(send, Send)
    assert send.images == (ImageBlock(url="/a/cart.png"),)
    assert send.text == "see [image /a/cart.png] there"


def test_an_image_is_taken_back_with_one_key() -> None:
    found = picture("/a/cart.png")
    assert found is not None
    state = with_pictures(Composer(), (found,))
    state, _ = press(press(state, Press("backspace"))[0], Press("backspace"))
    assert state.empty


def test_an_image_that_cannot_be_sent_stays_text_and_says_why() -> None:
    def too_large(_path: str) -> Picture | None:
        raise UsageError("The image a.png is larger than 8 MB")

    router = KeyRouter(Composer(), picture=too_large)
    (hint,) = router.press((Paste("a.png"),), now_s=0, columns=80)
    assert "larger than 8 MB" in str(hint)
    assert shown(router.composer.cells) == "a.png"
