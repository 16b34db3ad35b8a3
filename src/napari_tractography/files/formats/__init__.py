"""The formats of streamlines, one file each: arrays in and out."""
