"""See the package."""


class RayError(Exception):
    """A call whose actor is gone."""
