"""The protocols of publishers, distributors and subscribers as synchronous objects, one concept a file."""
