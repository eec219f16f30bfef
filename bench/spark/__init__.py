"""Everything that knows of Spark: Java, the session, running a grid, progress."""
