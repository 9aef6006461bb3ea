"""`manage.py doctor`: questions to each server, each answered on its own."""
