"""File formats: FODs, images and tractograms, read into arrays and written from them."""
