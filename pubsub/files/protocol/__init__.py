"""The exchange of a file's pieces, as cores that touch neither files nor the network."""
