"""The parts that every stronger service is made of: archive, distributors, strong topics and groups.

Each part is one file and is proven by its own tests; a service imports the part that it needs from its file.
"""
