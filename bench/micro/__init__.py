"""Speed of the layers, as ratios in one run."""
