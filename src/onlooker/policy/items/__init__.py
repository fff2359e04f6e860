"""Items, as pure functions: which are made of a session, how they are matched, ranked and shown."""
