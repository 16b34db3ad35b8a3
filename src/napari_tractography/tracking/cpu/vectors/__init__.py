"""Peaks and tensors, followed as they are: one streamline after the other."""
