"""Item views: models, views and delegates of tables and tiles."""
