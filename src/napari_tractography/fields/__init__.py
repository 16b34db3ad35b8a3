"""Where orientations come from: each file gives what an Fod is made of."""
