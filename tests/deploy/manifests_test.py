"""The manifests fit together: names, labels, ports, volumes. What a cluster would refuse, or would take without a word
and not work with, fails here."""

import re

import manifests
import pytest

STATEFUL_SETS = manifests.stateful_sets()
WITH_TLS = manifests.stateful_sets(tls=True)
each_stateful_set = pytest.mark.parametrize(
    "stateful_set", STATEFUL_SETS + WITH_TLS,
    ids=[manifests.name_of(each) for each in STATEFUL_SETS] + [manifests.name_of(each) + "-tls" for each in WITH_TLS])


def test_every_file_is_part_of_the_kustomization():
    files = {path.name for path in manifests.FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert sorted(files) == sorted(manifests.kustomization()["resources"])


def test_each_daemon_has_one_stateful_set():
    commands = [manifests.container(each)["command"] for each in STATEFUL_SETS]
    assert sorted(commands) == [["muster-coordinator"], ["muster-server"], ["muster-worker"]]


def test_there_is_one_coordinator():
    (coordinator,) = [each for each in STATEFUL_SETS if manifests.name_of(each) == "muster-coordinator"]
    assert coordinator["spec"]["replicas"] == 1


@each_stateful_set
def test_a_stateful_set_selects_its_own_pods_only(stateful_set):
    selector = stateful_set["spec"]["selector"]["matchLabels"]
    chosen = [
        manifests.name_of(each) for each in STATEFUL_SETS
        if manifests.selects(selector, manifests.pod_template(each)["metadata"]["labels"])
    ]
    assert chosen == [manifests.name_of(stateful_set)]


@each_stateful_set
def test_its_service_is_there_and_leads_to_its_ports(stateful_set):
    (service,) = [
        each for each in manifests.resources("Service")
        if manifests.name_of(each) == stateful_set["spec"]["serviceName"]
    ]
    labels = manifests.pod_template(stateful_set)["metadata"]["labels"]
    assert manifests.selects(service["spec"]["selector"], labels)
    ports = {port["name"]: port["containerPort"] for port in manifests.container(stateful_set)["ports"]}
    assert {port["targetPort"]: port["port"] for port in service["spec"]["ports"]} == ports


@each_stateful_set
def test_it_listens_where_its_ports_and_probes_are(stateful_set):
    container = manifests.container(stateful_set)
    flags = manifests.arguments(stateful_set)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    grpc = manifests.port_of(flags["--listen"])
    assert ports["grpc"] == grpc
    assert ports.get("data") == (int(flags["--data-port"]) if "--data-port" in flags else None)
    # Kubernetes has no certificate for a question of gRPC's.
    way = "tcpSocket" if "--tls-key" in flags else "grpc"
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert manifests.probed_port(stateful_set, probe) == (grpc, way), probe
    if "--advertise" in flags:
        assert manifests.port_of(flags["--advertise"]) == grpc
    metrics = manifests.port_of(flags["--page-listen"]) if "--page-listen" in flags else None
    assert ports.get("metrics") == metrics
    told = manifests.pod_template(stateful_set)["metadata"].get("annotations", {}).get("prometheus.io/port")
    assert told == (None if metrics is None else str(metrics))
    scheme = manifests.pod_template(stateful_set)["metadata"].get("annotations", {}).get("prometheus.io/scheme")
    assert scheme == ("https" if metrics is not None and "--tls-key" in flags else None)


@each_stateful_set
def test_addresses_in_arguments_are_names_of_services(stateful_set):
    services = {manifests.name_of(each): each for each in manifests.resources("Service")}
    for flag in ("--advertise", "--coordinator"):
        address = manifests.arguments(stateful_set).get(flag)
        if address is None:
            continue
        host, port = address.rsplit(":", 1)
        service = services[host.removeprefix("$(POD_NAME).").removesuffix(".$(POD_NAMESPACE).svc")]
        # Only a headless service gives every pod a name.
        assert (service["spec"].get("clusterIP") == "None") == host.startswith("$(POD_NAME)."), flag
        assert int(port) in [each["port"] for each in service["spec"]["ports"]], flag


@each_stateful_set
def test_its_name_is_that_of_a_headless_service(stateful_set):
    (service,) = [
        each for each in manifests.resources("Service")
        if manifests.name_of(each) == stateful_set["spec"]["serviceName"]
    ]
    assert service["spec"]["clusterIP"] == "None"


@each_stateful_set
def test_liveness_is_asked_apart_from_readiness(stateful_set):
    container = manifests.container(stateful_set)
    if "--tls-key" in manifests.arguments(stateful_set):
        return  # Probes that have no certificate only connect.
    assert container["startupProbe"]["grpc"]["service"] == "live"
    assert container["livenessProbe"]["grpc"]["service"] == "live"
    assert "service" not in container["readinessProbe"]["grpc"]


@each_stateful_set
def test_a_pod_has_no_token_and_no_variables_of_services(stateful_set):
    spec = manifests.pod_template(stateful_set)["spec"]
    (account,) = manifests.resources("ServiceAccount")
    assert spec["serviceAccountName"] == manifests.name_of(account)
    assert account["automountServiceAccountToken"] is False
    assert spec["automountServiceAccountToken"] is False
    # Kubernetes would set MUSTER_COORDINATOR_PORT beside our MUSTER_COORDINATOR.
    assert spec["enableServiceLinks"] is False
    assert spec["nodeSelector"] == {"kubernetes.io/arch": "amd64"}


@each_stateful_set
def test_its_image_can_be_nobody_elses(stateful_set):
    image = manifests.container(stateful_set)["image"]
    name, tag = image.rsplit(":", 1)
    assert name.startswith("localhost/"), "without a host the name leads to a public registry"
    assert tag != "latest"


def test_a_workers_tasks_have_time_to_leave():
    (workers,) = [each for each in manifests.stateful_sets() if manifests.name_of(each) == "muster-worker"]
    (leaves,) = [each for each in manifests.container(workers)["args"] if each.startswith("--leave-grace-ms=")]
    # The rest is for the daemon's own end.
    assert int(leaves.split("=")[1]) / 1000 + 5 < manifests.grace_seconds(workers)


def test_servers_and_workers_are_taken_away_one_at_a_time():
    budgets = manifests.resources("PodDisruptionBudget")
    guarded = {
        manifests.name_of(each)
        for each in STATEFUL_SETS for budget in budgets
        if manifests.selects(budget["spec"]["selector"]["matchLabels"], manifests.pod_template(each)["metadata"]["labels"])
    }
    assert guarded == {"muster-server", "muster-worker"}
    assert [each["spec"]["maxUnavailable"] for each in budgets] == [1, 1]


@each_stateful_set
def test_variables_in_arguments_are_set(stateful_set):
    container = manifests.container(stateful_set)
    known = {each["name"] for each in container.get("env", [])}
    for argument in container["args"]:
        assert set(re.findall(r"\$\((\w+)\)", argument)) <= known, argument


@each_stateful_set
def test_what_is_mounted_is_there(stateful_set):
    spec = manifests.pod_template(stateful_set)["spec"]
    claims = {manifests.name_of(each) for each in manifests.resources("PersistentVolumeClaim")}
    volumes = {manifests.name_of(each) for each in stateful_set["spec"].get("volumeClaimTemplates", [])}
    for volume in spec.get("volumes", []):
        volumes.add(volume["name"])
        if "persistentVolumeClaim" in volume:
            assert volume["persistentVolumeClaim"]["claimName"] in claims
    mounted = {mount["name"] for mount in manifests.container(stateful_set)["volumeMounts"]}
    assert mounted == volumes


@each_stateful_set
def test_folders_that_it_writes_to_are_volumes(stateful_set):
    mounts = manifests.container(stateful_set)["volumeMounts"]
    written = [mount["mountPath"] for mount in mounts if not mount.get("readOnly")]
    for flag in ("--data-dir", "--checkpoint-root"):
        folder = manifests.arguments(stateful_set).get(flag)
        # Below the mount, so that a folder of ours may be made in a volume that has one of its own (lost+found).
        assert folder is None or any(folder.startswith(path + "/") for path in written), flag
    assert manifests.arguments(stateful_set).get("--offload-folder", written[0]) in written
    prepared = manifests.arguments(stateful_set).get("--prepared-folder")
    assert prepared is None or any(prepared.startswith(path + "/") for path in written)


@each_stateful_set
def test_jobs_name_files_in_shared_volumes_alone(stateful_set):
    roots = manifests.values_of(stateful_set, "--data-root")
    shared = {m["mountPath"] for m in manifests.container(stateful_set)["volumeMounts"]
              if m["name"] in ("checkpoints", "data")}
    assert "/checkpoints" in roots
    assert set(roots) <= shared
    # The data are for workers.
    assert ("/data" in roots) == (manifests.name_of(stateful_set) == "muster-worker")


def test_all_see_the_checkpoints_at_one_path():
    (coordinator,) = [each for each in STATEFUL_SETS if manifests.name_of(each) == "muster-coordinator"]
    root = manifests.arguments(coordinator)["--checkpoint-root"]
    for stateful_set in STATEFUL_SETS:
        (mount,) = [m for m in manifests.container(stateful_set)["volumeMounts"] if m["name"] == "checkpoints"]
        assert root.startswith(mount["mountPath"] + "/"), manifests.name_of(stateful_set)
    shared = [each["spec"]["accessModes"] for each in manifests.resources("PersistentVolumeClaim")]
    assert shared == [["ReadWriteMany"]] * 2


@each_stateful_set
def test_it_runs_with_few_rights_and_a_bound_on_memory(stateful_set):
    pod = manifests.pod_template(stateful_set)["spec"]["securityContext"]
    container = manifests.container(stateful_set)
    assert pod["runAsNonRoot"] and pod["runAsUser"] != 0
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    # Daemons take their default budgets from the limit; with less requested, a full node could not keep the promise.
    resources = container["resources"]
    assert resources["limits"]["memory"] == resources["requests"]["memory"]


def test_nobody_but_musters_pods_and_clients_gets_in():
    policies = {manifests.name_of(each): each["spec"] for each in manifests.resources("NetworkPolicy")}
    for stateful_set in STATEFUL_SETS:
        labels = manifests.pod_template(stateful_set)["metadata"]["labels"]
        assert manifests.selects(policies["muster"]["podSelector"]["matchLabels"], labels)
        (rule,) = policies["muster"]["ingress"]
        (peer,) = rule["from"]
        assert manifests.selects(peer["podSelector"]["matchLabels"], labels)
    assert policies["muster"]["policyTypes"] == ["Ingress", "Egress"]
    own, names = policies["muster"]["egress"]
    assert own["to"] == policies["muster"]["ingress"][0]["from"]
    assert {each["port"] for each in names["ports"]} == {53}
    clients = policies["muster-clients"]["podSelector"]["matchLabels"]
    open_to_clients = [
        manifests.name_of(each) for each in STATEFUL_SETS
        if manifests.selects(clients, manifests.pod_template(each)["metadata"]["labels"])
    ]
    assert open_to_clients == ["muster-coordinator"]
    (rule,) = policies["muster-metrics"]["ingress"]
    assert rule["ports"] == [{"port": "metrics"}]


@pytest.mark.parametrize("stateful_set", WITH_TLS, ids=manifests.name_of)
def test_with_certificates_every_daemon_has_all_three_files(stateful_set):
    flags = manifests.arguments(stateful_set)
    (mount,) = [m for m in manifests.container(stateful_set)["volumeMounts"] if m["name"] == "tls"]
    # The names that cert-manager gives them in a secret.
    assert {flag: flags[flag].removeprefix(mount["mountPath"] + "/") for flag in flags if flag.startswith("--tls")} == {
        "--tls-authority": "ca.crt", "--tls-certificate": "tls.crt", "--tls-key": "tls.key"}
