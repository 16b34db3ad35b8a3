"""Where a streamline is: in which regions, and in what tissue."""
