"""Maps made of tractograms and FODs."""
