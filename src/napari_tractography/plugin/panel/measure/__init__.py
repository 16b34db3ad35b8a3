"""The Measure section of the panel: widgets only."""
