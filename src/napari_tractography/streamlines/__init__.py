"""What comes out: streamlines in memory, and on their way to a file."""
