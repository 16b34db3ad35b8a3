"""The only place for napari, qtpy and magicgui."""
