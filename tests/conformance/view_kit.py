"""Conversations of every kind of block, for the tests of the views."""

from hypothesis import strategies as st

from bridle.protocol.messages import (
    FileMention,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    YieldBlock,
)

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
BLOCKS = st.one_of(
    st.builds(TextBlock, text=TEXTS),
    st.builds(ImageBlock, url=TEXTS, detail=st.sampled_from(["auto", "low", "high"])),
    st.builds(FileMention, path=TEXTS),
    st.builds(ThinkingBlock, family=TEXTS, opaque=TEXTS),
    st.builds(ToolUseBlock, wire_id=TEXTS, tool=TEXTS, input=st.dictionaries(TEXTS, VALUES, max_size=2)),
    st.builds(ToolResultBlock, wire_id=TEXTS, tool=TEXTS, text=TEXTS, failed=st.booleans()),
    st.builds(YieldBlock),
)
MESSAGES = st.lists(
    st.builds(
        Message, role=st.sampled_from(["user", "assistant"]), content=st.lists(BLOCKS, max_size=6).map(tuple)
    ),
    max_size=5,
)
