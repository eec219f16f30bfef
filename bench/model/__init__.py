"""What the analysis predicts, with nothing run: the formulas, parity, PMcast, what the paper prints."""
