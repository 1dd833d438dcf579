"""Foundations that know nothing of agents: framing, time, ids, retries, text.

`base` imports nothing else of Bridle, and this package imports none of its own modules: take them one by one
(`from bridle.base.net.sse import SseFrameBuffer`). It is not a place for leftovers; a function that knows a
session, a tool or a setting belongs to the package that owns that word.
"""
