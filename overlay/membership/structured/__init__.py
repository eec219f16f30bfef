"""The structured service: topic tables drawn uniformly from the directory (CAMCAST, section 5.2.3)."""
