"""The nouns: frozen, and made of the standard library alone."""
