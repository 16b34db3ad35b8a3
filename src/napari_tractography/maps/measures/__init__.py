"""What bundles are measured by: numbers, profiles, maps with their error, tables and plots."""
