"""The region of a bucket: nobody is refused where S3 does not tell it, and nobody waits for it for long."""

import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from isotherm.clients.regions import AGAIN_S, LONGEST_AGAIN_S, MOST_BUCKETS, Regions, region_said
from isotherm.clients.storage import RetryingFileIO
from isotherm.runtime.hanging import MOST

NO_WAY = OSError("no such host")


class S3:
    """What S3 says of buckets, and a clock."""

    def __init__(self, *answers):
        self.asked = []
        self.now_s = 0.0
        self.answers = list(answers)
        self.hangs = None

    def clock_s(self):
        return self.now_s

    def region(self, bucket):
        self.asked.append(bucket)
        if self.hangs is not None:
            self.hangs.wait()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def s3(monkeypatch):
    """Makes an S3; nothing in the environment says a region."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    return S3


def files(regions, **more):
    class Files(RetryingFileIO):
        pass

    Files.regions = regions
    return Files({"s3.access-key-id": "key", "s3.secret-access-key": "secret", **more})


def region_of(io):
    io.new_input("s3://lake/a")
    return io.fs_by_scheme("s3", "lake").region


def test_a_bucket_whose_region_is_not_told_now_is_asked_for_again(s3):
    """All that was sent to it was signed for another region, until the process ended."""
    there = s3(NO_WAY, "eu-central-1")
    io = files(Regions(there.region, there.clock_s))

    assert [region_of(io), region_of(io)] == ["us-east-1", "us-east-1"]
    assert there.asked == ["lake"], "not for each file"

    there.now_s += AGAIN_S
    assert [region_of(io), region_of(io)] == ["eu-central-1", "eu-central-1"]
    assert there.asked == ["lake", "lake"]


def test_where_s3_does_not_tell_it_the_machine_does(tmp_path):
    """In a network without a way to S3's public address it was refused for ever, though AWS' own client knew it."""
    (tmp_path / "config").write_text("[default]\nregion = ap-south-1\n")
    # AWS' client reads its configuration once in a process.
    program = (
        "from isotherm.clients.regions import Regions\n"
        "from isotherm.clients.storage import RetryingFileIO\n"
        "RetryingFileIO.regions = Regions(lambda bucket: None)\n"
        "files = RetryingFileIO({'s3.access-key-id': 'key', 's3.secret-access-key': 'secret'})\n"
        "print(files.fs_by_scheme('s3', 'lake').region)\n"
    )
    environment = {name: one for name, one in os.environ.items() if not name.startswith("AWS_")} | {
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )

    assert done.stdout == "ap-south-1\n"


def released(there):
    """Have what hangs go on, and end."""
    there.hangs.set()
    for one in threading.enumerate():
        if one.name == "isotherm-request":
            one.join(10)


def test_an_s3_that_says_nothing_is_waited_for_once_and_not_for_each_bucket(s3):
    there = s3("eu-central-1")
    there.hangs = threading.Event()
    regions = Regions(there.region, there.clock_s, wait_s=0.0)
    buckets = [f"b{number}" for number in range(100)]

    assert {regions.of(bucket) for bucket in buckets} == {None}

    released(there)
    assert there.asked == buckets[:1]
    assert regions.of("b0") == "eu-central-1", "a late answer counts too"


def test_however_long_an_s3_says_nothing_few_questions_hang(s3):
    there = s3("eu-central-1")
    there.hangs = threading.Event()
    regions = Regions(there.region, there.clock_s, wait_s=0.0)
    for _ in range(2 * MOST):
        there.now_s += LONGEST_AGAIN_S

        assert {regions.of(f"b{number}") for number in range(100)} == {None}

    released(there)
    assert MOST < len(there.asked) < MOST + 8, "one now and then tries"


def test_buckets_that_a_tables_owner_makes_up_are_not_remembered_for_ever(s3):
    there = s3(NO_WAY)
    regions = Regions(there.region, there.clock_s)
    for number in range(MOST_BUCKETS + 10):
        regions.of(f"b{number}")
    asked = len(there.asked)

    regions.of(f"b{MOST_BUCKETS + 9}")
    regions.of("b0")
    assert there.asked[asked:] == ["b0"]


@pytest.mark.parametrize("said", [{"s3.region": "eu-west-1"}, {"client.region": "eu-west-1"}])
def test_where_somebody_says_it_nobody_is_asked(s3, said):
    there = s3("eu-central-1")

    assert region_of(files(Regions(there.region, there.clock_s), **said)) == "eu-west-1"
    assert there.asked == []


class Tells(BaseHTTPRequestHandler):
    """S3, which forbids what it is asked for, and says where that is."""

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        there = self.path == "/lake"
        self.send_response(403 if there else 404)
        if there:
            self.send_header("x-amz-bucket-region", "eu-central-1")
        self.end_headers()


def test_s3_says_the_region_of_a_bucket_that_nobody_may_read():
    with ThreadingHTTPServer(("127.0.0.1", 0), Tells) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        address = f"http://127.0.0.1:{server.server_port}/{{}}"

        said = [
            region_said(bucket, address) for bucket in ("lake", "gone", "a@elsewhere", "lake:80", "x" * 300)
        ]
        server.shutdown()
        serving.join()

    assert said == ["eu-central-1", None, None, None, None]
