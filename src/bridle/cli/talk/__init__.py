"""`bridle` at a terminal, and `bridle attach`."""
