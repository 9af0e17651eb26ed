"""docs/operations.md: each command about adding, removing, upgrading, backing up and restoring runs, while jobs train."""

import json
import os
import pathlib
import re
import subprocess

import pytest
from cluster import COORDINATOR, MUSTER, SERVER, WORKER, step_of, wait_until

PAGE = pathlib.Path("docs/operations.md")
RULES = pathlib.Path("deploy/monitoring/muster_rules.yml")
SECTIONS = ("Adding and removing machines", "Upgrading", "Backing up and restoring")
BLOCK = re.compile(r"^```sh\n(.*?)^```\n", re.MULTILINE | re.DOTALL)

JOB = """
name: "%s"
model { mlp { hidden: 8 classes: 3 } }
data { synthetic_classification { examples: 240 features: 8 classes: 3 } }
optimizer { name: "sgd" learning_rate: 0.05 }
update { %s }
workers: 2
threads_per_worker: 1
batch_size: 16
stop { steps: 100000000 }
checkpoint { every_steps: 20 }
"""
ROADS = {"JOB": "durability: EVERY_PUSH partitions: 4", "replicated": "dense: ALL_REDUCE"}


def section(title):
    """The text of a section of the page."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"{PAGE} has no section {title}"
    return found.group(1)


class Shell:
    """A shell in which the page's commands run in order, with this machine in place of the page's hosts and folders."""

    def __init__(self, folder):
        programs = folder / "bin"
        programs.mkdir()
        for each in (COORDINATOR, SERVER, WORKER, MUSTER):
            (programs / each.name).symlink_to(each)
        for each in ("srv", "backup", "home"):
            (folder / each).mkdir()
        # Addresses of its own, on which the page's ports are free.
        pid = os.getpid()
        self.places = {f"host-{host}": f"127.{20 + 20 * number + (pid >> 16) % 20}.{pid >> 8 & 255}.{pid & 255}"
                       for number, host in enumerate("abc")}  # fmt: skip
        self.places |= {"/srv": f"{folder}/srv", "/backup": f"{folder}/backup"}
        self.folder = folder
        self.process = subprocess.Popen(
            ["bash"], cwd=folder, env={"HOME": f"{folder}/home", "PATH": f"{programs}:/usr/bin:/bin"}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.run("set -euo pipefail")

    def run(self, commands):
        """Runs commands as the page has them; returns what they print."""
        for name, place in self.places.items():
            commands = re.sub(rf"(?<![\w/]){re.escape(name)}\b", place, commands)
        # No command reads what comes after it.
        self.process.stdin.write(f"{{\n{commands}\n}} < /dev/null\necho END OF BLOCK\n")
        self.process.stdin.flush()
        printed = ""
        for line in self.process.stdout:
            if line == "END OF BLOCK\n":
                return printed
            printed += line
        logs = "".join(f"--- {each.name}\n{each.read_text()[-2000:]}" for each in (self.folder / "srv").glob("*.log"))
        pytest.fail(f"this block failed:\n{commands}\n{printed}{logs}")

    def end(self):
        for each in (self.folder / "srv").glob("*.pid"):
            subprocess.run(["kill", "-KILL", each.read_text().strip()], capture_output=True)
        self.process.stdin.close()
        self.process.wait()


class Jobs:
    """Jobs that train as long as the test needs them, one on either road."""

    def __init__(self, shell):
        self.shell = shell
        self.address = f"{shell.places['host-c']}:7000"

    def muster(self, *words):
        """The answer of a command; None while the coordinator is away."""
        command = [MUSTER, "--coordinator", self.address, "--output", "json", *words]
        done = subprocess.run([str(word) for word in command], text=True, capture_output=True)
        assert done.returncode in (0, 4), done.stdout + done.stderr
        return json.loads(done.stdout) if done.returncode == 0 else None

    def status(self, job):
        return wait_until(lambda: self.muster("status", job), "the coordinator answers")

    def submit(self):
        for name, update in ROADS.items():
            file = self.shell.folder / f"{name}.textproto"
            file.write_text(JOB % (name, update))
            wait_until(lambda: self.muster("submit", file), "the coordinator takes a job")

    def go_on(self):
        """Returns once each job has made steps since now, and a checkpoint."""
        for job in ROADS:
            before = step_of(self.status(job))

            def has_gone_on(job=job, before=before):
                now = self.status(job)
                assert now["state"] not in ("SUCCEEDED", "FAILED", "CANCELLED"), now
                return now["state"] == "RUNNING" and step_of(now) > before and int(now.get("checkpoint_clock", 0)) > 0

            wait_until(has_gone_on, f"{job} goes on after step {before}")

    def live_daemons(self):
        return {each["id"] for each in self.muster("cluster")["daemons"] if each["live"]}

    def all_daemons_live(self):
        wait_until(lambda: all(each["live"] for each in self.muster("cluster")["daemons"]), "all daemons live")

    def servers(self, job):
        return {each["replicas"][0]["server_id"] for each in self.status(job)["partitions"]}

    def workers(self):
        return {task["worker_id"] for job in ROADS for task in self.status(job)["tasks"]}


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path)
    yield shell
    shell.end()


def test_the_commands_run_in_order_and_jobs_survive_them(shell):
    jobs = Jobs(shell)
    adding, upgrading, backing_up = (BLOCK.findall(section(title)) for title in SECTIONS)
    start, add, drain_server, drain_worker, undrain = adding
    shell.run(start)
    jobs.submit()
    jobs.go_on()
    start_both, look_and_spread = add.split("muster cluster\n")
    shell.run(start_both)
    # A user would look until they are there.
    wait_until(lambda: {"s1", "w1"} <= jobs.live_daemons(), "the new machine joins")
    assert "s1" in shell.run("muster cluster\n" + look_and_spread)
    wait_until(lambda: jobs.servers("JOB") == {"s0", "s1"}, "partitions spread")
    assert "s0 is drained" in shell.run(drain_server)
    assert jobs.servers("JOB") == {"s1"}
    jobs.go_on()
    shell.run(drain_worker)
    wait_until(lambda: jobs.workers() == {"w1"}, "tasks go to the other worker")
    jobs.go_on()
    shell.run(undrain)
    jobs.all_daemons_live()
    assert not jobs.muster("cluster")["drains"]

    for block in upgrading:
        printed = shell.run(block)
        jobs.all_daemons_live()
        jobs.go_on()
    assert printed.count("muster_build_info") == 5, printed
    assert int(jobs.status("JOB")["generation"]) == 1, jobs.muster("events", "JOB")

    back_up, restore = backing_up
    shell.run(back_up)
    jobs.go_on()
    shell.run(restore)
    jobs.go_on()
    for job in ROADS:
        status = jobs.status(job)
        assert int(status["generation"]) > 1, status
        back = [each["text"] for each in jobs.muster("events", job)["events"] if each["kind"] == "ROLLBACK"]
        assert back and re.search(r"starts again from clock [1-9]", back[-1]), back


def test_every_alert_of_the_rules_is_explained():
    explained = re.findall(r"^\| `(Muster\w+)`", section("What each alert means"), re.MULTILINE)
    assert sorted(explained) == sorted(re.findall(r"alert: (\w+)", RULES.read_text()))
    pages = re.findall(r"^\| `(Muster\w+)`, page", section("What each alert means"), re.MULTILINE)
    assert sorted(pages) == sorted(re.findall(r"alert: (\w+)\n(?:(?!alert:)[\s\S])*?severity: page", RULES.read_text()))


def test_every_kind_of_alert_is_explained():
    told = re.search(r"runs a line of(.*?)say the rest", section("Alerts"), re.DOTALL).group(1)
    kinds = set(re.findall(r"`(failed|succeeded|cancelled|stalled|left_worker|not_finite)`", told))
    assert kinds == set(re.findall(r"^\| `([a-z_]+)`", section("What each alert means"), re.MULTILINE))
