"""The models that write notes, and embedders."""
