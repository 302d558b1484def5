"""Policy files from texts, and what they come to for a table."""

from isotherm.core.policy.precedence import PolicyFile, resolve
from isotherm.runtime.yaml_reader import parse_yaml


def policy_file(text):
    return parse_yaml(text, "p.yaml", PolicyFile)


def found(files, table="shop.orders", properties=None):
    named = [(f"{number}.yaml", policy_file(text)) for number, text in enumerate(files)]
    return resolve(table, properties or {}, named)


def resolved(files, table="shop.orders", properties=None):
    answer = found(files, table, properties)
    return None if answer is None else answer.policy
