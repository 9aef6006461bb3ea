"""The WSGI application that `runapi` serves."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chronos_site.settings")
application = get_wsgi_application()
