#!/usr/bin/env python
"""Django's command-line entry point."""

import os
import sys

if __name__ == "__main__":
    try:
        from django.core.management import execute_from_command_line
    except ModuleNotFoundError:
        sys.exit(
            "chronos: this Python has no Django. Run `make setup` once, then"
            " `.venv/bin/python manage.py` with the command."
        )
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chronos_site.settings")
    execute_from_command_line(sys.argv)
