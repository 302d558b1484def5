"""What a REST catalog may answer, and how it is connected to."""

from isotherm.runtime.config import CatalogConfig

CONFIG = {"defaults": {}, "overrides": {}}


def rest_error(code):
    return {"error": {"message": "no", "type": "SomeException", "code": code}}


def rest(uri, **properties):
    return CatalogConfig(properties={"type": "rest", "uri": uri, **properties}, timeout_s=0.2)
