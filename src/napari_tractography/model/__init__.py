"""What people have in mind, as data: FODs, seeds, regions, tissues, parameters."""
