"""./muster on a machine where nothing is installed or built, with stand-ins for apt-get, Bazel and the client."""

import fcntl
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import termios

import pytest

COMMAND = "(cd /somewhere && \\\n  exec env - \\\n    PATH=/bin \\\n  /usr/bin/gcc -c a.cc)\n"


def started(action):
    return f"SUBCOMMAND: # //a [action '{action}', configuration: 1, execution platform: 2]\n{COMMAND}"


BUILD_OUTPUT = "".join([
    "Starting local Bazel server and connecting to it...\n",
    "Loading: 0 packages loaded\n",
    "    currently loading: client ... (2 packages)\n",
    "Analyzing: 5 targets (1 packages loaded, 0 targets configured)\n",
    "[0 / 4] [Prepa] stable-status.txt\n",
    started("Compiling client/main.cc"),
    "client/main.cc:7: warning: odd\n    7 | int main\n",
    started("Compiling common/a.cc"),
    "[2 / 9] Compiling common/a.cc; 2s local\n",
    "SUBCOMMAND: # //a [action 'Executing genrule //a', configuration: 1]\n"
    "(cd /somewhere && \\\n  /bin/bash -c 'cat > stamped.cc <<END\n#include <string>\nEND')\n",
    started("Linking client/muster"),
    "INFO: Build completed successfully, 9 total actions\n",
])
FAKES = {
    "dpkg-query": """
        [ ! -e "$FAKES/installed" ] || printf '%s install ok installed\\n' "${@:4}"
        """,
    "sudo": '"$@"',
    "nproc": "echo 2",
    "apt-get": """
        echo "$*" >> "$FAKES/apt-get.log"
        case " $* " in
          *" -s "*) printf 'Inst a\\nConf a\\nInst b\\nConf b\\n' ;;
          *" install "*)
            [ ! -e "$FAKES/no_network" ] || { echo 'E: Unable to fetch' >&2; exit 100; }
            echo 'dlstatus:1:50.0:Retrieving file 1 of 2 (3s remaining)'
            printf 'pmstatus:%s (amd64)\\n' 'a:0:Preparing a' 'a:9:Unpacking a' 'a:99:Installed a'
            touch "$FAKES/installed"
            ;;
        esac""",
    "bazel": """
        echo "$*" >> "$FAKES/bazel.log"
        if [ "$1" = aquery ]; then
          printf 'action 1\\n  Mnemonic: CppCompile\\naction 2\\n  Mnemonic: CppCompile\\n'
          exit
        fi
        if [ "$1" = query ]; then
          printf '%s\\n' //common/b:b_fuzz //common/a:a_fuzz
          exit
        fi
        cat "$FAKES/output" >&2
        [ ! -e "$FAKES/broken" ] || exit 1
        mkdir -p bazel-bin/client
        printf '#!/bin/sh\\necho "client: $*"\\nexit 3\\n' > bazel-bin/client/muster
        chmod +x bazel-bin/client/muster
        for name in a b; do
          mkdir -p bazel-fuzz-bin/common/$name
          cp "$FAKES/fuzz_program" bazel-fuzz-bin/common/$name/${name}_fuzz
        done""",
    # A fuzz target as libFuzzer makes it.
    "fuzz_program": """
        echo "${0##*/} $*" >> "$FAKES/fuzz.log"
        faulty=$(cat "$FAKES/faulty" 2>/dev/null)
        [ "${0##*/}" != "$faulty" ] || { echo "Test unit written to /found/crash-1"; exit 77; }
        echo stat::number_of_executed_units: 1234""",
}


@pytest.fixture
def checkout(tmp_path):
    """A folder with the script, and one of stand-ins."""
    tools, fakes = tmp_path / "tools", tmp_path / "fakes"
    tools.mkdir()
    fakes.mkdir()
    for name in ("muster", "tools/progress.sh", "tools/fuzz.sh", "tools/test.sh", "tools/package.py",
                 "tools/image.py", "tools/count_results.py"):  # yapf: disable
        (tmp_path / name).write_bytes(pathlib.Path(name).read_bytes())
    (tmp_path / "muster").chmod(0o755)
    for name, body in FAKES.items():
        (fakes / name).write_text(f"#!/bin/bash\n{body}\n")
        (fakes / name).chmod(0o755)
    (fakes / "output").write_text(BUILD_OUTPUT)
    return tmp_path


def environment(checkout):
    fakes = checkout / "fakes"
    return {"PATH": f"{fakes}:/usr/bin:/bin", "FAKES": str(fakes), "HOME": str(checkout), "CUDA_HOME": "/nonexistent"}


def muster(checkout, *arguments):
    return subprocess.run([checkout / "muster", *arguments], env=environment(checkout), capture_output=True, text=True)


def bash(script, text=""):
    done = subprocess.run(["bash", "-c", f"set -euo pipefail; . tools/progress.sh; {script}"], input=text,
                          capture_output=True, text=True, check=True)  # yapf: disable
    return done.stdout.splitlines(), done.stderr


def test_a_fresh_machine_is_told_what_happens_from_the_first_moment(checkout):
    done = muster(checkout, "demo", "--quick")
    assert (done.returncode, done.stdout) == (3, "client: demo --quick\n")
    lines = done.stderr.splitlines()
    assert lines[0].startswith("muster: installing ") and "bazel-bootstrap" in " ".join(lines)
    assert "muster: fetching 2 packages: file 1 of 2 (3s remaining)" in lines
    assert "muster: building the programs for the first time: about 5 min on 2 processors" in lines
    assert max(map(len, lines)) < 80
    # Elsewhere than in a terminal only a line now and then.
    assert len([each for each in lines if "compiling" in each]) <= 1


def test_what_the_compiler_says_is_passed_on_and_nothing_else(checkout):
    stderr = muster(checkout, "demo").stderr
    assert "client/main.cc:7: warning: odd\n    7 | int main\n" in stderr
    for noise in ("SUBCOMMAND", "gcc", "END", "#include", "PATH=", "INFO", "Analyzing", "currently", "[0 / 4]"):
        assert noise not in stderr


def test_what_is_built_takes_no_words_and_no_second_count(checkout):
    muster(checkout, "demo")
    (checkout / "fakes/output").write_text("Loading: 0 packages loaded\n[0 / 4] checking cached actions\n")
    (checkout / "fakes/bazel.log").unlink()
    done = muster(checkout, "list")
    assert (done.stdout, done.stderr) == ("client: list\n", "")
    assert "aquery" not in (checkout / "fakes/bazel.log").read_text()


def test_the_count_has_the_builds_own_flags_and_targets(checkout):
    muster(checkout, "package")
    count, build = (checkout / "fakes/bazel.log").read_text().splitlines()[:2]
    assert "--stamp" in count.split() and "--stamp" in build.split()
    assert "//client:muster" in build.split()
    assert "deps(set(//client:muster " in count


def test_image_installs_what_makes_it_and_builds_with_the_commit(checkout):
    muster(checkout, "image")
    assert "buildah" in (checkout / "fakes/apt-get.log").read_text().split()
    assert "--stamp" in (checkout / "fakes/bazel.log").read_text().splitlines()[-1].split()


def test_image_refuses_a_wrong_command_line_before_it_builds(checkout):
    done = muster(checkout, "image", "out.tar")
    assert done.returncode == 2 and "usage: ./muster image" in done.stderr
    assert not (checkout / "fakes/bazel.log").exists()


def test_packages_that_cannot_be_installed_are_an_error(checkout):
    (checkout / "fakes/no_network").touch()
    done = muster(checkout, "demo")
    assert done.returncode == 1
    assert "E: Unable to fetch" in done.stderr
    assert "muster: could not install the packages; ./muster builds on Debian 12, as root or with sudo" in done.stderr


def test_a_build_that_fails_is_an_error(checkout):
    (checkout / "fakes/broken").touch()
    done = muster(checkout, "demo")
    assert done.returncode == 1
    assert done.stderr.endswith("muster: the build failed\n")


def test_fuzz_runs_each_target_and_says_that_nothing_was_found(checkout):
    done = muster(checkout, "fuzz", "--seconds", "5")
    assert (done.returncode, done.stdout.splitlines()) == (0, [
        "a_fuzz: nothing found in 1234 inputs, 5 s",
        "b_fuzz: nothing found in 1234 inputs, 5 s",
        "2 targets, 0 failed",
    ])
    first, second = (checkout / "fakes/fuzz.log").read_text().splitlines()
    assert first.startswith("a_fuzz -max_total_time=5 ") and first.endswith(f" {checkout}/common/a/a_corpus")
    assert second.startswith("b_fuzz ")
    build = (checkout / "fakes/bazel.log").read_text().splitlines()[-1].split()
    assert {"--config=fuzz", "//common/a:a_fuzz", "//common/b:b_fuzz"} <= set(build) and "--config=asan" not in build


def test_fuzz_names_the_input_that_broke_a_target(checkout):
    (checkout / "fakes/faulty").write_text("a_fuzz")
    done = muster(checkout, "fuzz")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "a_fuzz: FAILED after ? inputs",
        "  input: /found/crash-1",
        f"  what the target printed: {checkout}/.cache/muster/fuzz/a_fuzz/log",
        "b_fuzz: nothing found in 1234 inputs, 60 s",
        "2 targets, 1 failed",
    ]


def test_fuzz_runs_one_target_with_address_sanitizer(checkout):
    done = muster(checkout, "fuzz", "--asan", "--target", "b_fuzz", "--seconds", "1")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 targets, 0 failed")
    build = (checkout / "fakes/bazel.log").read_text().splitlines()[-1].split()
    assert "--config=asan" in build and "//common/a:a_fuzz" not in build


def test_fuzz_needs_clang(checkout):
    (checkout / "fakes/installed").touch()
    (checkout / "fakes/dpkg-query").write_text('#!/bin/bash\nprintf "%s install ok installed\\n" "${@:4}" | grep -v clang\n')
    (checkout / "fakes/no_network").touch()
    done = muster(checkout, "fuzz")
    assert done.returncode == 1
    assert done.stderr.endswith("install Debian's packages clang and libclang-rt-14-dev\n")


RESULT = """<testsuites><testsuite name="MeshTest">
<testcase name="Counts" status="run" time="2.5" classname="MeshTest"/>
<testcase name="Divides" status="run" time="{seconds}" classname="MeshTest">{failure}</testcase>
</testsuite></testsuites>"""


def write_result(checkout, folder, seconds, failure=""):
    (checkout / "bazel-testlogs" / folder).mkdir(parents=True)
    (checkout / "bazel-testlogs" / folder / "test.xml").write_text(RESULT.format(seconds=seconds, failure=failure))


def count_results(checkout, status=0):
    return subprocess.run(["python3", checkout / "tools/count_results.py", str(status), checkout / "bazel-testlogs"],
                          capture_output=True, text=True)  # yapf: disable


def test_results_end_with_counts_and_say_what_took_longest(checkout):
    write_result(checkout, "common/mesh/tests/shard_1_of_2", 1)
    write_result(checkout, "common/mesh/tests/shard_2_of_2", 40)
    write_result(checkout, "server/tests", 3)
    done = count_results(checkout)
    assert (done.returncode, done.stdout.splitlines()) == (0, [
        "took 46 s: //common/mesh:tests, 40 s of it MeshTest.Divides",
        "took 6 s: //server:tests, 3 s of it MeshTest.Divides",
        "6 passed, 0 failed",
    ])


def test_a_failed_case_and_a_build_without_results_are_failures(checkout):
    write_result(checkout, "server/tests", 3, '<failure message="1 is not 2"/>')
    done = count_results(checkout, 3)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-2:] == ["failed: //server:tests MeshTest.Divides: 1 is not 2", "1 passed, 1 failed"]
    shutil.rmtree(checkout / "bazel-testlogs/server")
    done = count_results(checkout, 1)
    assert done.returncode == 1 and done.stdout.splitlines()[-1] == "0 passed, 1 failed"


ENDED = """<testsuites><testsuite name="server/tests">
<testcase name="server/tests"><error message="exited with error code 142"></error></testcase>
</testsuite></testsuites>"""


def test_a_program_that_was_ended_names_the_case_that_was_under_way(checkout):
    folder = checkout / "bazel-testlogs/server/tests"
    folder.mkdir(parents=True)
    (folder / "test.xml").write_text(ENDED)
    log = "[ RUN      ] A.Passes\n[       OK ] A.Passes (3 ms)\n[ RUN      ] A.Hangs/1\nwaiting\n"
    (folder / "test.log").write_text(log)
    assert "exited with error code 142, in A.Hangs/1" in count_results(checkout, 3).stdout
    (folder / "test.log").write_text(log + "[  FAILED  ] A.Hangs/1 (9 ms)\n")
    assert "failed: //server:tests server/tests: exited with error code 142\n" in count_results(checkout, 3).stdout


def targets_tested(checkout, *arguments):
    """What the script has Bazel test, and the flags."""
    muster(checkout, "test", *arguments)
    last = (checkout / "fakes/bazel.log").read_text().splitlines()[-1].split()
    assert last[0] == "test"
    return {each for each in last if each.startswith("//")}, [each for each in last if each.startswith("--test_filter")]


def test_all_programs_run_and_all_cases_only_when_asked_for(checkout):
    assert targets_tested(checkout) == ({"//..."}, [])
    assert targets_tested(checkout, "--all") == ({"//..."}, ["--test_filter=*"])
    assert targets_tested(checkout, "//common/mesh/...", "--test_filter=Mesh*") == (
        {"//common/mesh/..."}, ["--test_filter=Mesh*"])  # yapf: disable


@pytest.mark.parametrize("asked_for, run", [("-*Exhaustive*", ["test_one"]), ("*", ["test_one", "test_two_exhaustive"])])
def test_cases_in_python_are_left_out_by_name_too(tmp_path, asked_for, run):
    (tmp_path / "a_test.py").write_text("def test_one():\n    pass\n\n\ndef test_two_exhaustive():\n    pass\n")
    told = {"PATH": "/usr/bin:/bin", "TESTBRIDGE_TEST_ONLY": asked_for, "TEST_TMPDIR": tmp_path, "XML_OUTPUT_FILE": tmp_path / "xml"}
    subprocess.run(["sh", "tests/harness/pytest.sh", tmp_path / "a_test.py"], env=told, check=True, capture_output=True)
    assert re.findall(r'testcase [^>]*name="(\w+)"', (tmp_path / "xml").read_text()) == run


def test_quick_asks_bazel_for_the_folders_that_changed(checkout):
    subprocess.run("mkdir -p common/mesh/sub docs && touch common/mesh/BUILD && git init -qb main && git add -A && "
                   "git -c user.name=a -c user.email=a@b commit -qm a && git checkout -qb b && "
                   "touch common/mesh/sub/new.cc docs/new.md", shell=True, check=True, cwd=checkout)  # yapf: disable
    targets, _ = targets_tested(checkout, "--quick", "//server/...")
    assert targets == {"//server/...", "//common/b:b_fuzz", "//common/a:a_fuzz"}
    query = [line for line in (checkout / "fakes/bazel.log").read_text().splitlines() if "attr(" in line][-1]
    assert query.endswith('attr(tags, "\\bcontract\\b", //...) union tests(//common/mesh:all)')


def test_test_has_help_and_refuses_what_it_does_not_know(checkout):
    done = muster(checkout, "test", "--help")
    assert done.returncode == 0 and done.stdout.startswith("usage: ./muster test")
    done = muster(checkout, "test", "fast")
    assert done.returncode == 2 and done.stderr.splitlines()[-1].startswith("Flags are passed on")


@pytest.mark.parametrize("arguments", [["--seconds"], ["--seconds", "0"], ["--target"], ["--fast"], ["frame_fuzz"],
                                       ["--target", "c_fuzz"]])  # yapf: disable
def test_fuzz_refuses_a_wrong_command_line(checkout, arguments):
    done = muster(checkout, "fuzz", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "./muster fuzz" in done.stderr or "no fuzz target c_fuzz" in done.stderr


def test_fuzz_help(checkout):
    done = muster(checkout, "fuzz", "--help")
    assert done.returncode == 0 and done.stdout.startswith("usage: ./muster fuzz")


def test_progress_counts_files_and_estimates():
    # Every line that is shown takes ten seconds.
    clock = 'EPOCHSECONDS=0; show_progress() { echo "$1"; EPOCHSECONDS=$((EPOCHSECONDS + 10)); };'
    actions = [started(f"Compiling {name}.cc") for name in "abcd"]
    shown, _ = bash(f"unset EPOCHSECONDS; {clock} follow_build 0 4", "".join(actions))
    # A line is shown with each of a command's lines.
    first = [line for i, line in enumerate(shown) if line not in shown[:i]]
    assert first == [
        "compiling file 1 of 4: a.cc",
        "compiling file 2 of 4, about 2 min left: b.cc",
        "compiling file 3 of 4, about 50 s left: c.cc",
        "compiling file 4 of 4: d.cc",
    ]
    shown, _ = bash(f"unset EPOCHSECONDS; {clock} follow_build 15 ''", "Loading:\n" + actions[0])
    assert shown == []


def test_progress_counts_packages():
    lines = "dlstatus:1:50.0:Retrieving file 1 of 2 (3s remaining)\nGet:1 http://debian a\n" + "".join(
        f"pmstatus:{name}:7.5:{what} {name} (amd64)\n" for what in ("Preparing", "Unpacking", "Configuring", "Installed")
        for name in ("a", "b"))
    shown, _ = bash('show_progress() { echo "$1"; }; follow_packages 2', lines)
    assert shown == [
        "fetching 2 packages: file 1 of 2 (3s remaining)",
        "unpacked 1 of 2 packages: a",
        "unpacked 2 of 2 packages: b",
        "installed 1 of 2 packages: a",
        "installed 2 of 2 packages: b",
    ]


def test_progress_counts_tests_among_what_is_left():
    clock = 'EPOCHSECONDS=0; show_progress() { echo "$1"; EPOCHSECONDS=$((EPOCHSECONDS + 10)); };'
    # A file, a small test for half a file, and two parts of a large one for nine files each.
    tests = "//a:tests 1 small\n//b:tests 2 large"
    actions = [started("Compiling a/folder.cc"), started("Testing //a:tests"), started("Testing //b:tests (shard 1 of 2)")]
    shown, _ = bash(f"unset EPOCHSECONDS; {clock} follow_build 0 1 $'{tests}'", "".join(actions))
    first = [line for i, line in enumerate(shown) if line not in shown[:i]]
    assert first == ["compiling file 1 of 1: a/folder", "testing //a:tests, about 30 min left",
                     "testing //b:tests, about 2 min left"]  # yapf: disable


def test_progress_tells_how_many_tests_ran():
    shown, _ = bash('show_progress() { echo "$1"; }; follow_build 0 ""', "[7 / 9] 3 / 5 tests; Testing //a; 2s local\n")
    assert shown == ["ran 3 of 5 test programs"]


def test_elsewhere_than_in_a_terminal_a_line_comes_every_15_seconds():
    _, stderr = bash("unset EPOCHSECONDS; for EPOCHSECONDS in 5 6 19 20 34 36; do show_progress $EPOCHSECONDS; done")
    assert stderr == "muster: 5\nmuster: 20\nmuster: 36\n"


def test_in_a_terminal_one_line_that_fits_is_written_again():
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    script = ". tools/progress.sh; unset EPOCHSECONDS; EPOCHSECONDS=1; show_progress one; EPOCHSECONDS=2;" \
        f"show_progress {'x' * 200}; show_progress too_soon; clear_progress"
    subprocess.run(["bash", "-c", script], stderr=follower, check=True)
    os.close(follower)
    text = b""
    try:
        while True:
            text += os.read(leader, 1 << 16)
    except OSError:
        # All of it is read, and nobody writes any more.
        os.close(leader)
    assert text.decode() == f"\rmuster: one\x1b[K\rmuster: {'x' * 71}\x1b[K\r\x1b[K"
