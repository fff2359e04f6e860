"""The inspector: pages on which a person sees what an agent remembers."""
