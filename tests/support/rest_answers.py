"""What a REST catalog may answer."""

CONFIG = {"defaults": {}, "overrides": {}}


def rest_error(code):
    return {"error": {"message": "no", "type": "SomeException", "code": code}}
