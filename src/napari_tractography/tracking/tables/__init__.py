"""What a backend reads: the FOD tabulated over directions, and the cones between them."""
