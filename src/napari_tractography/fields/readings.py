"""In which ways the numbers of a file can be read: the names alone, for help texts and checks.

Needs nothing, not even NumPy: the command's help names them.
"""

from __future__ import annotations

AUTO = "auto"
TRACKED = ("sh", "peaks", "tensor")  # those of fields/kinds.py that files are read as
CHOICES = (AUTO, *TRACKED)  # of `kind` in load_fod
BASES = ("tournier07", "descoteaux07", "tournier07_legacy", "descoteaux07_legacy")
FRAMES = ("scanner", "voxel")
# MRtrix3 works in scanner axes, DIPY in voxel axes.
DEFAULT_FRAMES = {
    "tournier07": "scanner",
    "tournier07_legacy": "scanner",
    "descoteaux07": "voxel",
    "descoteaux07_legacy": "voxel",
}
AXES = ("scanner", "voxel", "fsl")  # of peaks and tensors
# Places of the elements xx, yy, zz, xy, xz, yz of a tensor.
TENSOR_ORDERS = {
    "mrtrix": (0, 1, 2, 3, 4, 5),
    "fsl": (0, 3, 5, 1, 2, 4),
    "dipy": (0, 2, 5, 1, 3, 4),
}
