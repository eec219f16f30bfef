"""Compare the modes: an experiment grid on Spark, four tiers, one report."""
