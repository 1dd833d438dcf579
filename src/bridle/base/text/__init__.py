"""Text: Markdown, diffs, front matter, JSON answers, safe output for terminals."""
