"""How things look: the Display and View sections, pictures and movies."""
