"""Policy files: snapshots, comparison and quarantine."""
