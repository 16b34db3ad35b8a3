"""What goes out of the window: scripts, pictures, movies."""
