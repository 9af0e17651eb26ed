"""Which shared libraries programs are linked with, and which of Debian's packages have them."""

import pathlib
import re
import subprocess


def needed_libraries(programs):
    said = subprocess.run(["readelf", "-d", *programs], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", said))


def packages_of(libraries):
    cache = subprocess.run(["/sbin/ldconfig", "-p"], check=True, capture_output=True, text=True).stdout
    paths = dict(re.findall(r"^\s*(\S+) \(.*x86-64.*\) => (\S+)$", cache, re.MULTILINE))
    # Packages name what they own by its path before or after /lib was merged into /usr/lib; the others are not found.
    names = [name for each in libraries for name in (paths[each].removeprefix("/usr"), "/usr" + paths[each])]
    owned = subprocess.run(["dpkg", "-S", *names], capture_output=True, text=True).stdout
    owners = re.findall(r"^([^:]+):\S* (\S+)$", owned, re.MULTILINE)
    found = {pathlib.Path(path).name: package for package, path in owners}
    assert set(found) == set(libraries)
    return set(found.values())
