"""The command ``napari-tractography bench``: our speed beside other programs' in one run."""
