"""Rules for fuzz targets; common/fuzz/BUILD says what one is."""

def fuzz_target(name, deps):
    """Declares NAME, a program of Clang's libFuzzer for `./muster fuzz`, and NAME_replay, the same code for tests/fuzz.

    Args:
      name: ends with _fuzz. NAME.cc defines LLVMFuzzerTestOneInput; its seeds are all files of the folder that has
        _corpus in place of _fuzz.
      deps: what NAME.cc includes.
    """
    seeds = native.glob([name[:-len("_fuzz")] + "_corpus/*"], allow_empty = False)
    native.cc_binary(
        name = name,
        testonly = True,
        srcs = [name + ".cc"],
        linkopts = ["-fsanitize=fuzzer"],
        # `./muster fuzz` finds targets by this tag; nothing else builds them.
        tags = [
            "fuzz",
            "manual",
        ],
        deps = deps,
    )
    native.cc_library(
        name = name + "_replay",
        testonly = True,
        srcs = [name + ".cc"],
        data = seeds,
        # One program replays all targets.
        local_defines = ["LLVMFuzzerTestOneInput=Replay_" + name],
        visibility = ["//tests/fuzz:__pkg__"],
        deps = deps,
    )

def fuzz_replay_test(name, targets):
    """Declares a test that gives seeds, and mutations of them, to fuzz targets: one test case for each target.

    Args:
      name: of the test.
      targets: labels of fuzz_target rules.
    """
    lines = ["#include \"common/fuzz/replay.h\"", "extern \"C\" {"]
    entries = []
    for target in targets:
        folder, _, program = target[2:].partition(":")
        lines.append("int Replay_%s(const uint8_t* data, size_t size);" % program)
        entries.append("{\"%s\", \"%s/%s_corpus\", Replay_%s}," % (program, folder, program[:-len("_fuzz")], program))
    lines += ["}", "std::vector<muster::FuzzTarget> muster::FuzzTargets() {", "return {"] + entries + ["};", "}"]
    native.genrule(
        name = name + "_targets",
        testonly = True,
        outs = [name + "_targets.cc"],
        cmd = "cat > $@ <<'END'\n%s\nEND" % "\n".join(lines),
    )
    native.cc_test(
        name = name,
        size = "small",
        srcs = [name + "_targets.cc"],
        deps = [target + "_replay" for target in targets] + ["//common/fuzz:replay"],
    )
