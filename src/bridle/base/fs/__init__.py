"""Files: safe reads and writes, paths, patterns, walking folders."""
