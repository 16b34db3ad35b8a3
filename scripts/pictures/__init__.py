"""The pictures of the gallery: what each shows, and how it is drawn."""
