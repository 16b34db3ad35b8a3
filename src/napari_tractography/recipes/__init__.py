"""Everything that makes a tractogram again, as data."""
