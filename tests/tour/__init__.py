"""The main job played in the real window through its widgets, a picture for each screen."""
