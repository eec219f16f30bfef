"""Membership services: unstructured, semi-structured and structured, behind one interface."""
