"""Who may write policies decides what is done to tables, and cannot stop the loop or read what is not a policy."""

from isotherm.core.policy.conflicts import MOST_STEPS
from isotherm.service.policies.policy_file import MAX_FILE_BYTES
from isotherm.service.policies.policy_folder import MAX_FOLDER_BYTES, PolicyFolder

HIDDEN = "hunter2"


def taken(folder):
    policies = PolicyFolder(folder)
    policies.reload(at_once=True)
    return policies


def test_patterns_of_which_each_could_meet_each_are_compared_up_to_a_limit(tmp_path):
    for file in range(2):
        names = ", ".join(f'"*a*{file}x{number}*b"' for number in range(5000))
        (tmp_path / f"{file}.yaml").write_text(f"tables: [{names}]\ncold: {{after: {file + 1}}}\n")
    policies = taken(tmp_path)

    assert MOST_STEPS < 5000 * 5000
    assert any("too many patterns" in line for line in policies.complaints)
    assert len(policies.files()) == 2


def test_a_folder_is_read_up_to_a_limit_and_says_which_files_are_left_out(tmp_path):
    filler = "#" * (MAX_FILE_BYTES - 100)
    count = MAX_FOLDER_BYTES // len(filler) + 3
    for number in range(count):
        (tmp_path / f"{number:03}.yaml").write_text(f"tables: t{number}\n{filler}")
    policies = taken(tmp_path)

    assert len(policies.files()) < count
    assert {line.partition(":")[0] for line in policies.complaints} == {
        f"{number:03}.yaml" for number in range(len(policies.files()), count)
    }


def test_a_link_to_another_file_shows_nothing_of_it(tmp_path):
    """What is no policy is told with its place; values that sound like a secret, never."""
    folder, elsewhere = tmp_path / "policies", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    texts = {
        "plain": HIDDEN,
        "lines": f"root:{HIDDEN}:0:0\n",
        "properties": f"sasl.password: {HIDDEN}\n",
        "nested": f"catalog:\n  properties:\n    token: {HIDDEN}\n",
        "tag": f"password: !{HIDDEN}\n",
        "binary": f"\x00{HIDDEN}",
        "list": f"- {HIDDEN}\n",
    }
    for name, text in texts.items():
        (elsewhere / name).write_text(text)
        (folder / f"{name}.yaml").symlink_to(elsewhere / name)
    (folder / "device.yaml").symlink_to("/dev/zero")
    (folder / "folder.yaml").symlink_to(elsewhere)
    (folder / "itself.yaml").symlink_to(folder / "itself.yaml")
    (folder / "good.yaml").write_text("tables: shop.*\n")
    policies = taken(folder)

    assert [name for name, _ in policies.files()] == ["good.yaml"]
    assert {line.partition(":")[0] for line in policies.complaints} == {
        *(f"{name}.yaml" for name in texts), "device.yaml", "folder.yaml", "itself.yaml",
    }  # fmt: skip
    assert not [line for line in policies.complaints if HIDDEN in line]
