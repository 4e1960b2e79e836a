"""A Django site whose tasks Punctual runs."""
