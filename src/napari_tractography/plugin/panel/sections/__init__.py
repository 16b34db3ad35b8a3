"""The sections of the panel, and what they are made of."""
