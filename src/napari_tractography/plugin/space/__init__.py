"""Where things are on the screen: display space, camera, views and orientation labels."""
