"""Memory inside agent frameworks: one module for each, which needs the extra of the same name."""
