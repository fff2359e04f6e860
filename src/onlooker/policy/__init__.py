"""The decisions: pure functions over frozen data."""
