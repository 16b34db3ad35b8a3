"""What Python and machines need: arrays, memory, compiled code, processes; no tractography."""
