"""Catalogs that refuse one table."""

from dataclasses import replace

from isotherm.service.ports import Refused


def front(service, what):
    """A catalog that refuses one table, whether it has it or not."""
    load, names = service.catalog.load, service.catalog.names

    def refusing(name):
        if name == "shop.orders":
            raise Refused("ForbiddenError: 403")
        return load(name)

    def hiding(*_):
        return replace(names(), unlisted={"shop": "403"})

    service.catalog.load = refusing
    if what == "hidden":
        service.catalog.names = hiding


def refusing(service, said, name="shop.orders"):
    """The catalog says this of one table, as long as the list is not empty."""
    load, said = service.catalog.load, [said]

    def asked(one):
        if said and one == name:
            raise said[0]
        return load(one)

    service.catalog.load = asked
    return said
