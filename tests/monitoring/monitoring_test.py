"""deploy/monitoring with Debian's Prometheus: its rules, its dashboard, and what a running cluster shows. Skipped where
`promtool` or `prometheus` is neither in MUSTER_PROMETHEUS, a folder, nor on the path."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

MONITORING = pathlib.Path("deploy/monitoring").resolve()
RULES_TEST = pathlib.Path("tests/monitoring/muster_rules_test.yml").resolve()
WAIT_SECONDS = 120

JOB = """
name: "scraped"
owner: "ada"
model { mlp { hidden: 16 classes: 3 } }
data { synthetic_classification { examples: 200 features: 8 classes: 3 } holdout: 0.2 }
optimizer { name: "sgd" learning_rate: 0.1 }
%s
workers: 2
batch_size: 16
stop { steps: 40 }
evaluation { metric: "accuracy" every_steps: 20 }
checkpoint { every_steps: 20 }
"""
ON_SERVERS = "update { partitions: 2 }"
BY_ALL_REDUCE = "update { dense: ALL_REDUCE }"


def tool(name):
    folder = os.environ.get("MUSTER_PROMETHEUS")
    found = shutil.which(name, path=folder) if folder else shutil.which(name, path=os.defpath)
    if found is None:
        pytest.skip(f"{name} is not there: install Debian's prometheus, or set MUSTER_PROMETHEUS to its folder")
    return found


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], text=True, capture_output=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def expressions():
    """{panel's title: its queries}, with Grafana's variables filled in."""
    panels = json.loads((MONITORING / "muster_dashboard.json").read_text())["panels"]
    return {
        panel["title"]: [
            target["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*").replace("$job_id", ".*")
            for target in panel.get("targets", [])
        ]
        for panel in panels
    }


def metrics_of(text):
    return set(re.findall(r"\bmuster_[a-z_]+\b", text)) - {"muster_rules"}


class Process:
    """A process whose standard error goes to a file."""

    def __init__(self, log, *words):
        self.log = log
        with open(log, "w") as out:
            self.process = subprocess.Popen([str(word) for word in words], stdout=out, stderr=out)

    def await_line(self, pattern):
        """The pattern's first group, once a line has it."""
        return wait_until(lambda: re.search(pattern, self.log.read_text()), self.log).group(1)

    def stop(self):
        self.process.kill()
        self.process.wait()


def wait_until(true, what):
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        if value := true():
            return value
        time.sleep(0.1)
    pytest.fail(f"nothing came within {WAIT_SECONDS} s: {what.read_text() if isinstance(what, pathlib.Path) else what}")


class Cluster:
    """A coordinator that shows its metrics, a server and two workers; two jobs have run on them."""

    def __init__(self, folder):
        self.processes = []
        self.folder = folder
        coordinator = self.start("server/coordinator/muster-coordinator", "--listen=127.0.0.1:0",
                                 f"--data-dir={folder}/coordinator", "--page-listen=127.0.0.1:0")  # yapf: disable
        self.address = coordinator.await_line(r"listening on (\S+)")
        self.metrics = coordinator.await_line(r"page on http://(\S+)/")
        self.start("server/muster-server", "--listen=127.0.0.1:0", f"--coordinator={self.address}",
                   f"--data-dir={folder}/server", "--id=s0")  # yapf: disable
        for worker in ["w0", "w1"]:
            self.start("worker/runtime/muster-worker", "--listen=127.0.0.1:0", f"--coordinator={self.address}",
                       f"--id={worker}", "--slots=2")  # yapf: disable
        for name, update in {"servers": ON_SERVERS, "all_reduce": BY_ALL_REDUCE}.items():
            file = folder / f"{name}.pbtxt"
            file.write_text(JOB % update)
            run("client/muster", f"--coordinator={self.address}", "submit", file, "--watch")

    def start(self, program, *flags):
        name = f"{pathlib.Path(program).name}-{len(self.processes)}"
        self.processes.append(Process(self.folder / f"{name}.log", program, *flags))
        return self.processes[-1]

    def text(self):
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=WAIT_SECONDS) as page:
            return page.read().decode()

    def stop(self):
        for process in self.processes:
            process.stop()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    # Daemons report with their heartbeats.
    wait_until(lambda: 'muster_build_info{daemon="s0"' in (text := cluster.text()) and 'daemon="w1"' in text, "heartbeats")
    yield cluster
    cluster.stop()


def test_the_rules_and_the_scrape_configuration_are_valid():
    run(tool("promtool"), "check", "config", MONITORING / "prometheus.yml")


def test_the_rules_fire_when_they_should():
    run(tool("promtool"), "test", "rules", RULES_TEST)


def test_every_rule_is_tested():
    alerts = set(re.findall(r"alert: (\w+)", (MONITORING / "muster_rules.yml").read_text()))
    fired = set(re.findall(r"alertname: (\w+)\n +exp_alerts", RULES_TEST.read_text()))
    assert alerts == fired


def test_queries_of_the_dashboard_are_valid(tmp_path):
    rules = [{"record": f"panel:{number}", "expr": expression}
             for number, expression in enumerate(sum(expressions().values(), []))]  # yapf: disable
    assert len(rules) > 20
    file = tmp_path / "dashboard_rules.yml"
    # JSON is YAML.
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    run(tool("promtool"), "check", "rules", file)


def test_metrics_follow_prometheus_conventions(cluster):
    done = subprocess.run([tool("promtool"), "check", "metrics"], input=cluster.text(), text=True, capture_output=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_what_rules_and_dashboard_ask_for_is_there(cluster):
    families = set(re.findall(r"^# TYPE (\w+) ", cluster.text(), re.MULTILINE))
    shown = families | {family + suffix for family in families for suffix in ["_bucket", "_sum", "_count"]}
    asked = metrics_of((MONITORING / "muster_rules.yml").read_text())
    asked |= metrics_of(" ".join(sum(expressions().values(), [])))
    # No rpc failed, and these are no language models. Jobs that have ended do not wait and have no slow slots, and servers
    # keep nothing of them.
    absent = {"muster_rpc_failures_total", "muster_job_tokens_total", "muster_job_waiting", "muster_job_slow_slots",
              "muster_server_memory_bytes", "muster_server_log_bytes"}  # yapf: disable
    assert asked - shown - absent == set()


def test_labels_tell_daemons_and_jobs_apart(cluster):
    text = cluster.text()
    for line in [line for line in text.splitlines() if not line.startswith("#")]:
        name = line.split("{")[0].split(" ")[0]
        if name.startswith(("muster_server_", "muster_worker_", "muster_rocksdb_", "muster_collective_", "muster_rpc_")):
            assert 'daemon="' in line, line
        if name.startswith("muster_job_"):
            assert 'job_id="' in line, line
        # Prometheus gives these to every metric itself.
        assert not re.search(r'[{,](job|instance)="', line), line
    for count in [r'operation_seconds_count\{daemon="s0",operation="dense_push"\}', r'rpc_seconds_count\{daemon="coordinator"',
                  r'collective_seconds_count\{daemon="w[01]",operation="all_reduce"\}']:  # yapf: disable
        assert re.search(count + r"[^ ]* [1-9]", text), count


class Prometheus:
    """Prometheus with the configuration of deploy/monitoring, but our target and short intervals."""

    def __init__(self, folder, target):
        text = (MONITORING / "prometheus.yml").read_text()
        for old, new in [("localhost:7003", target), ("15s", "1s"), ("muster_rules.yml", f"{MONITORING}/muster_rules.yml")]:
            assert old in text
            text = text.replace(old, new)
        (folder / "prometheus.yml").write_text(text)
        self.process = Process(folder / "prometheus.log", tool("prometheus"), f"--config.file={folder}/prometheus.yml",
                               f"--storage.tsdb.path={folder}/data", "--web.listen-address=127.0.0.1:0")  # yapf: disable
        self.address = self.process.await_line(r'msg="Listening on" address=(\S+)')
        wait_until(self.is_ready, "Prometheus that is ready")

    def is_ready(self):
        """Until its database is open it answers 503."""
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=WAIT_SECONDS):
                return True
        except urllib.error.HTTPError:
            return False

    def get(self, path, **arguments):
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
        with urllib.request.urlopen(url, timeout=WAIT_SECONDS) as answer:
            return json.load(answer)["data"]

    def query(self, expression):
        return self.get("query", query=expression)["result"]


def test_prometheus_scrapes_a_cluster(cluster, tmp_path):
    prometheus = Prometheus(tmp_path, cluster.metrics)
    try:
        states = wait_until(lambda: prometheus.query('muster_job_state{state="SUCCEEDED"} * on (instance, job_id) '
                                                     "group_left (name, owner) muster_job_info"), "a scrape")  # yapf: disable
        assert len(states) == 2
        assert {(state["metric"]["name"], state["metric"]["owner"]) for state in states} == {("scraped", "ada")}
        (target,) = prometheus.get("targets")["activeTargets"]
        assert (target["health"], target["lastError"]) == ("up", "")
        (answer,) = prometheus.query('up{job="muster"}')
        assert answer["value"][1] == "1"

        def evaluated():
            rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
            return rules if all(rule["health"] == "ok" for rule in rules) else None

        rules = wait_until(evaluated, "evaluated rules")
        assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []
        kinds = prometheus.get("metadata", metric="muster_server_operation_seconds")
        assert [each["type"] for each in kinds["muster_server_operation_seconds"]] == ["histogram"]
    finally:
        prometheus.process.stop()
