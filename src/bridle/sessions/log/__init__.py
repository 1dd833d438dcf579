"""The encrypted log: database, writer, reader, chain, undo records."""
