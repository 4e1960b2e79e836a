"""The settings that matter here."""

import importlib.util
import os

SECRET_KEY = "an example"
USE_TZ = True
HAS_TASKS = importlib.util.find_spec("django.tasks") is not None
INSTALLED_APPS = [] if HAS_TASKS else ["django_tasks"]
TASKS = {
    "default": {
        "BACKEND": "punctual.django.PunctualBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {"url": os.environ.get("PUNCTUAL_URL", "http://127.0.0.1:7450")},
    }
}
