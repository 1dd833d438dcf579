"""What every client of a person shares: what is put to them, in which words, and what their answers mean.

No terminal and no widget: a client draws what stands here and sends what comes back.
"""
