"""Distributors: processes of the overlay that serve crowds of light publishers and subscribers."""
