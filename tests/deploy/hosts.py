"""Hosts on this machine: each has a network, a host name and shared memory of its own, and a cable to a switch.

They are namespaces. Nothing leads from one to another except the switch: no loopback address, no unix socket, no shared
memory. They share processors, process ids and files, the last as hosts do over a network's file system. A cable has a rate
(tc's tbf, in both directions), loses packets (nft, of those that arrive at the host), takes time (frame_relay.py, for what
leaves the host), and can be pulled out.

Hosts are gone, with what runs there, when the process that made them is, whatever ends it. Only root can make them.
"""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys

TOOLS = {"ip": "iproute2", "mount": "mount", "nft": "nftables", "nsenter": "util-linux", "setpriv": "util-linux", "tc": "iproute2",
         "unshare": "util-linux"}  # yapf: disable
# A test's path may lack root's tools.
PATH = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
# Networks, host name, System V's shared memory, mounts.
OWN = ["--net", "--uts", "--ipc", "--mount"]
# In front of a command whose process is to end with this one.
BOUND = ["setpriv", "--pdeathsig=KILL"]
# A port where nobody listens answers at once.
ROUND_TRIP = """
import socket, sys, time
for _ in range(2):  # The first asks for the link address, too.
    begin = time.perf_counter()
    with socket.socket() as probe:
        probe.connect_ex((sys.argv[1], 9))
    seconds = time.perf_counter() - begin
print(seconds)
"""
RELAY = pathlib.Path(__file__).absolute().parent / "frame_relay.py"


def run(*command, **options):
    """Its standard output; an error with what it said if it fails."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, env={"PATH": PATH}, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr or done.stdout}")
    return done.stdout


def missing():
    """What this machine lacks to have hosts, as a sentence; None if it lacks nothing."""
    for tool, package in TOOLS.items():
        if shutil.which(tool, path=PATH) is None:
            return f"hosts need {tool}: apt-get install {package}"
    if os.geteuid() != 0:
        return "hosts with networks of their own need root"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "hosts need /dev/net/tun for cables that take time"
    trials = {
        "namespaces": "true",
        "pairs of devices (veth)": "ip link add one type veth peer name two",
        "a switch (bridge)": "ip link add one type bridge",
        "tc's tbf": f"ip link set lo up; {Cable(rate=1).shape('lo')}",
        "nft's random numbers": Cable(loss=1).lose("lo"),
    }
    for what, trial in trials.items():
        try:
            run("unshare", *OWN, "sh", "-e", "-c", trial)
        except RuntimeError as error:
            return f"hosts need {what}: {error}"
    return None


@dataclasses.dataclass(frozen=True)
class Cable:
    # Mbit/s in each direction; 0: as fast as the machine.
    rate: int = 0
    # Percent of the packets that arrive at the host.
    loss: float = 0
    # Milliseconds for what leaves the host. A round trip passes two such cables.
    delay: int = 0

    def __str__(self):
        said = [f"{self.rate} Mbit/s"] if self.rate else []
        said += [f"{self.loss:g} % loss"] if self.loss else []
        said += [f"{self.delay} ms"] if self.delay else []
        return ", ".join(said) or "no limit"

    def shape(self, device):
        """The shell command that gives what leaves the device the cable's rate."""
        if not self.rate:
            return ""
        # What a switch's port may hold: 50 ms, and a hundred packets at least.
        queue = max(self.rate * 50_000 // 8, 150_000)
        return f"tc qdisc add dev {device} root tbf rate {self.rate}mbit burst {max(self.rate * 250, 16_000)} limit {queue}"

    def lose(self, device):
        """The shell command that loses packets which arrive at the device."""
        if not self.loss:
            return ""
        # The kernel must cut data into packets before they leave, or 64 KiB would be lost at a time.
        return f"""ip link set {device} gso_max_segs 1
nft -f - << end
table inet cable {{
  chain arriving {{
    type filter hook prerouting priority 0
    iifname "{device}" numgen random mod 10000 < {round(self.loss * 100)} counter drop
  }}
}}
end"""


class Space:
    """Namespaces that exist until close(), or until this process ends."""

    def __init__(self, setup="true"):
        self._keeper = subprocess.Popen(["unshare", *OWN, "sh", "-c", f"{setup} && echo made && exec cat"], env={"PATH": PATH},
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # yapf: disable
        if self._keeper.stdout.readline() != "made\n":
            raise RuntimeError(f"no namespaces by: {setup}")
        self.pid = self._keeper.pid

    def inside(self, *command):
        """What runs the command there, as a process that is the command's own."""
        return [shutil.which("nsenter", path=PATH), f"--target={self.pid}", *OWN, *map(str, command)]

    def run(self, *command, **options):
        return run(*self.inside(*command), **options)

    def close(self):
        self._keeper.stdin.close()
        self._keeper.wait()
        self._keeper.stdout.close()


class Host(Space):
    def __init__(self, name, number, hosts_file, settings):
        self.name = name
        self.address = f"10.77.0.{number}"
        # Of its network card, which stays when the cable is another.
        self.card = f"02:00:0a:4d:00:{number:02x}"
        # The switch's device at the other end of its cable.
        self.port = f"port{number}"
        setup = [f"hostname {name}", "mount -t tmpfs memory /dev/shm", f"mount --bind {hosts_file} /etc/hosts", "ip link set lo up"]
        setup += [f"echo {value} > /proc/sys/net/ipv4/{setting}" for setting, value in settings.items()]
        super().__init__(" && ".join(setup))

    def start(self, *command, **options):
        """A process there, with no environment except a path."""
        options = {"stdin": subprocess.DEVNULL, "env": {"PATH": PATH}, "cwd": "/"} | options
        return subprocess.Popen([*BOUND, *self.inside(*command)], **options)

    def lost(self):
        """Packets that its cable has lost."""
        rules = self.run("nft", "list", "ruleset")
        return int(rules.partition("counter packets ")[2].split()[0]) if rules else 0

    def round_trip(self, other):
        """Seconds for a packet to another host, and for its answer."""
        return float(self.run(sys.executable, "-c", ROUND_TRIP, other))

    def carried(self):
        """Bytes that its cable has carried to it, and from it."""
        figures = self.run("cat", "/proc/net/dev").partition("eth0:")[2].split()
        return int(figures[0]), int(figures[8])


class Network:
    """Hosts with these names, which all of them know. `folder` is for a file."""

    def __init__(self, folder, names, cable=Cable(), congestion_control=None):
        hosts_file = pathlib.Path(folder) / "hosts"
        # What a connection has learnt of a cable must not slow down those over the next one.
        settings = {"tcp_no_metrics_save": 1}
        if congestion_control is not None:
            settings["tcp_congestion_control"] = congestion_control
        self._switch = Space("ip link add switch type bridge && ip link set switch up")
        hosts_file.touch()
        hosts = [Host(name, number, hosts_file, settings) for number, name in enumerate(names, 1)]
        hosts_file.write_text("127.0.0.1 localhost\n" + "".join(f"{host.address} {host.name}\n" for host in hosts))
        self.hosts = {host.name: host for host in hosts}
        self._relay = None
        self._lay(cable)

    def replace_cables(self, cable):
        """Gives all hosts such cables. Connections go on, though packets that are under way are lost."""
        self._remove_cables()
        self._lay(cable)

    def set_port(self, host, state):
        """The switch's port of the host: "down", as with a cable that is pulled out there, or "up"."""
        self._switch.run("ip", "link", "set", host.port, state)

    def close(self):
        self._remove_cables()
        for space in [*self.hosts.values(), self._switch]:
            space.close()

    def _lay(self, cable):
        hosts = self.hosts.values()
        if cable.delay:
            places = [f"{host.pid}:{host.port}" for host in hosts]
            command = [*BOUND, sys.executable, RELAY, str(cable.delay), str(self._switch.pid), *places]
            self._relay = subprocess.Popen(command, env={"PATH": PATH}, stdout=subprocess.PIPE, text=True)
            if self._relay.stdout.readline() != "ready\n":
                raise RuntimeError("frame_relay.py has made no cables")
        else:
            pairs = [f"link add eth0 netns {host.pid} type veth peer name {host.port} netns {self._switch.pid}" for host in hosts]
            run("ip", "-batch", "-", input="\n".join(pairs))
        # A queue that holds what the cable has under way.
        up = "ip link set {0} txqueuelen 10000 && ip link set {0} up"
        lines = []
        for host in hosts:
            lines += [f"ip link set {host.port} master switch", up.format(host.port), cable.shape(host.port)]
            own = [f"ip link set eth0 address {host.card}", f"ip address add {host.address}/24 dev eth0", up.format("eth0")]
            host.run("sh", "-e", input="\n".join([*own, cable.shape("eth0"), cable.lose("eth0")]))
        self._switch.run("sh", "-e", input="\n".join(lines))

    def _remove_cables(self):
        if self._relay is not None:
            self._relay.kill()
            self._relay.wait()
            self._relay.stdout.close()
            self._relay = None
        for host in self.hosts.values():
            host.run("sh", "-c", "nft flush ruleset; ip link delete eth0 2> /dev/null; true")
