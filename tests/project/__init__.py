"""A project that uses Chronos: an app whose `handlers.py` holds what the role tests run."""
