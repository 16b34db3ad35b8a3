"""The streamlines layer: adapter to napari's Tracks, what is drawn of it, colours and edits."""

from .layer import Streamlines as Streamlines
