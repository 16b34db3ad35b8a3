"""What comes out: streamlines in memory, on their way to a file, and chosen by where they run."""
