"""The speed of this package beside that of other programs; ``napari-tractography bench``."""
