"""What the analysis predicts, with nothing run: the formulas, PMcast, what the paper prints."""
