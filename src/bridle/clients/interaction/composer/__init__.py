"""Input: the draft, keys, completion and pickers."""
