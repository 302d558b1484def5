"""What tests of several files here share."""

import pytest

from support.in_process import WithoutPauses
from support.lab import Lab
from support.policy_folders import GOOD, Folder
from support.relayed import Heard
from support.searching import APPLY
from support.surveys import World


@pytest.fixture
def world(lab):
    for name in ("shop.orders", "other.a", "other.b"):
        lab.create(name)
    made = World(lab)
    yield made
    made.ledger.close()


@pytest.fixture
def lab_of(tmp_path):
    labs = []

    def make(policy=APPLY):
        labs.append(Lab(tmp_path, policy=policy, threads=WithoutPauses()))
        return labs[-1]

    yield make
    for lab in labs:
        lab.executor.stop()


@pytest.fixture
def heard(lab):
    heard = Heard(lab)
    yield heard
    heard.service.stop()


@pytest.fixture
def folder(tmp_path):
    folder = Folder(tmp_path / "policies")
    folder.write(GOOD)
    assert folder.policies.reload() is not None
    assert (folder.after(), folder.policies.complaints) == (1, ())
    return folder
