"""Events and answers as lines, rows and exported pages."""
