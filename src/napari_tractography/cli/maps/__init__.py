"""Sub-commands that turn streamlines and FODs into numbers and maps."""
