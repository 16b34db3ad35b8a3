"""The bundles of a session: what each one is, which is active, how they are made and undone."""
