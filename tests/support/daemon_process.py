"""`isotherm run` as a process: its log is read all the time, and waited on with a time-out."""

import json
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import yaml

from support.rewrites import rewrites_of

PATIENCE_S = 90


class Daemon:
    """A daemon with a folder of its own for state and policies; its log is JSON lines."""

    def __init__(self, lab, servers, topic, name="one", *, policy=None, client=None, **parts):
        """Start it.

        Args:
            lab: where its tables are.
            servers: the broker.
            topic: the control topic.
            name: of its folder.
            policy: in the place of the lab's.
            client: more of librdkafka's properties.
            parts: more for the sections of its configuration.
        """
        self.lab = lab
        self.topic = topic
        self.folder = lab.root / name
        (self.folder / "policies").mkdir(parents=True, exist_ok=True)
        self.set_policy(lab.policy if policy is None else policy)
        properties = {"bootstrap.servers": servers, "session.timeout.ms": 6000, **(client or {})}
        config = {
            "catalog": {"properties": lab.properties},
            "kafka": {"properties": properties, "control_topic": topic, "group": f"g-{topic}"},
            "http": {"port": 0},
            "executors": {"local": {"jobs_at_once": 2}},
            "loop": {"plan_every_s": 0.2, "poll_tables_every_s": 1},
        }
        for part, options in parts.items():
            config[part] = config.get(part, {}) | options
        self.config = self.folder / "isotherm.yaml"
        self.config.write_text(yaml.safe_dump(config))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "isotherm.cli", "run", "--config", str(self.config)],
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
        )
        self.lines = []
        self.other = []
        self._read = 0
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()

    def set_policy(self, text):
        """Replace the policy; the daemon reads it again by itself."""
        new = self.folder / "policies" / "all.yaml.new"
        new.write_text(text)
        new.rename(new.with_suffix(""))

    def _follow(self):
        for line in self.process.stderr:
            with self._news:
                (self.lines.append(json.loads(line)) if line.startswith("{") else self.other.append(line))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def until(self, *names, **fields):
        """The next line of the log with one of these events, after those that were waited for before."""
        found = []

        def comes():
            while self._read < len(self.lines):
                record = self.lines[self._read]
                self._read += 1
                if record["event"] in names and all(
                    record.get(key) == value for key, value in fields.items()
                ):
                    found.append(record)
                    return True
            return not self._reader.is_alive()

        with self._news:
            self._news.wait_for(comes, PATIENCE_S)
        if not found:
            raise AssertionError(
                f"{names} {fields} never came (ended: {self.process.poll()}): "
                f"{self.lines[-8:]} {''.join(self.other[-30:])}"
            )
        return found[0]

    @property
    def port(self):
        return next(line["port"] for line in self.lines if line["event"] == "http_listening")

    def get(self, path, port=None):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port or self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, start):
        """The value of the metric whose line begins so, or None if there is none."""
        lines = self.get("/metrics")[1].splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(start)), None)

    def rewrites(self):
        """The processes that rewrite for this daemon now."""
        return rewrites_of(self.process.pid)

    def pause(self):
        """Stop the process as a debugger, a hypervisor or a full swap would."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        code = self.process.wait(60)
        self._reader.join(60)
        return code

    def end(self):
        """For the end of a test, whatever state it is in."""
        self.process.kill()
        self.process.wait()
        self._reader.join(60)
        self.process.stderr.close()


def eventually(condition, patience_s=PATIENCE_S):
    """Ask again until the answer is yes; bounded. Gives the answer."""
    tick = threading.Event()
    for _ in range(int(patience_s / 0.1)):
        answer = condition()
        if answer:
            return answer
        tick.wait(0.1)
    raise AssertionError(f"it never came: {condition}")
