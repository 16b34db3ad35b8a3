"""The FOD over the sphere, from its coefficients: amplitudes, peaks, and what a cone allows."""
