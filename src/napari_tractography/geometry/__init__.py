"""Where things are: grids of voxels, directions, units of length."""
