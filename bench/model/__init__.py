"""What the analysis predicts, with nothing run: the formulas, what the paper prints."""
