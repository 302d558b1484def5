"""Policy files that a person names: on the command line, they are one set."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from isotherm.core.policy.conflicts import conflicts
from isotherm.core.policy.precedence import PolicyFile
from isotherm.runtime.strict_model import ConfigError
from isotherm.runtime.yaml_reader import read_text
from isotherm.service.policies.policy_file import MAX_FILE_BYTES, decoded_name, is_policy, judged


@dataclass(frozen=True, slots=True)
class PolicySet:
    """Policies that a person named, read once: what a folder of them would be."""

    files: tuple[tuple[str, PolicyFile], ...]
    texts: Mapping[str, str]
    complaints: tuple[str, ...]

    def checked(self) -> "PolicySet":
        """Itself.

        Raises:
            ConfigError: something is wrong with it.
        """
        if self.complaints:
            raise ConfigError("\n".join(self.complaints))
        return self


def read_policies(paths: Iterable[Path]) -> PolicySet:
    """Policy files, and folders of them, with all that is wrong with them; named as they were given."""
    files: dict[str, PolicyFile] = {}
    texts: dict[str, str] = {}
    complaints: list[str] = []
    for path in _within(paths):
        name = decoded_name(str(path))
        try:
            texts[name] = read_text(path, MAX_FILE_BYTES)
            files[name] = judged(texts[name], name)
        except ConfigError as err:
            complaints.append(str(err))
    return PolicySet(tuple(sorted(files.items())), texts, (*complaints, *conflicts(files.items())))


def _within(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(one for one in path.iterdir() if is_policy(one.name))
        else:
            yield path
