"""How a streamlines layer meets napari's canvas and its layer controls."""
