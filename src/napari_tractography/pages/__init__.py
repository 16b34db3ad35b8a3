"""Interactive pages: bundles and a volume as one HTML file that a reader turns and slices.

The file holds all that it takes, and fetches nothing. Called by the command and the plugin.
"""
