"""Other programs as contestants of the speed comparison, one file each."""
