"""Libraries and tests of a folder. Each library is a target, with its own dependencies and visibility; what they hold is
compiled together, as one file, and so are the tests.

Most of the time that a small file takes to compile goes to the headers of others and to templates that its neighbours need,
too: compiled as one, a folder's files take half the time. So unnamed namespaces and macros are shared by a folder's files,
and folders must not depend on one another in a circle."""

def library(name, deps = [], srcs = [], hdrs = [], data = [], visibility = None, apart = False):
    """A library of a folder.

    Args:
      name: of the target.
      deps: cc_library targets that its files include.
      srcs: its .cc files.
      hdrs: its headers.
      data: what its users need when they run.
      visibility: of the target; None: the package's.
      apart: compile its files by themselves. For programs that must not link what the rest of the folder needs, and for
        files below a target that the rest of the folder needs.
    """
    return struct(name = name, deps = deps, srcs = srcs, hdrs = hdrs, data = data, visibility = visibility, apart = apart)

def pair(name, deps = [], **kwargs):
    """A library of NAME.h and NAME.cc."""
    return library(name, deps, srcs = [name + ".cc"], hdrs = [name + ".h"], **kwargs)

def header(name, deps = [], **kwargs):
    """A library of NAME.h alone."""
    return library(name, deps, hdrs = [name + ".h"], **kwargs)

def _one_file_impl(ctx):
    lines = ["#include \"%s\"\n" % src.short_path for src in ctx.files.srcs]
    ctx.actions.write(ctx.outputs.out, "".join(lines))

_one_file = rule(
    implementation = _one_file_impl,
    attrs = {
        "out": attr.output(mandatory = True),
        "srcs": attr.label_list(allow_files = [".cc"], mandatory = True),
    },
)

def _outside(targets, names):
    """Those of the targets that are not of these names in this package, each once."""
    return [target for target in depset(targets).to_list() if target not in names]

def folder(libraries, name = "folder", copts = [], testonly = None):
    """The libraries of a folder, and the target NAME, which is all that are not apart, for the folder's own tests.

    Args:
      libraries: what `library`, `pair` and `header` return.
      name: of the target of all.
      copts: the compiler's options for all.
      testonly: whether tests alone may use them; None: the package's default.
    """
    together = [each for each in libraries if not each.apart]
    sources = sorted([src for each in together for src in each.srcs])
    for each in libraries:
        native.cc_library(
            name = each.name,
            testonly = testonly,
            srcs = each.srcs if each.apart else [],
            hdrs = each.hdrs,
            copts = copts,
            data = each.data,
            visibility = each.visibility,
            deps = each.deps + ([":" + name] if each.srcs and not each.apart else []),
        )
    if sources:
        _one_file(name = name + "_file", testonly = testonly, srcs = sources, out = name + ".cc")
    native.cc_library(
        name = name,
        testonly = testonly,
        srcs = [name + ".cc"] if sources else [],
        hdrs = depset([header for each in together for header in each.hdrs]).to_list(),
        copts = copts,
        data = depset([file for each in together for file in each.data]).to_list(),
        textual_hdrs = sources,
        visibility = ["//visibility:private"],
        deps = _outside([dep for each in together for dep in each.deps], [":" + each.name for each in together]),
    )

def fixtures(libraries):
    """Libraries of a folder for tests alone."""
    folder(libraries, name = "fixtures", testonly = True)

def folder_tests(tests, name = "tests", hdrs = [], deps = [], size = "medium", **kwargs):
    """One program of a folder's tests.

    Args:
      tests: names of the files, without `.cc`.
      name: of the program.
      hdrs: headers of this folder that these tests alone include.
      deps: cc_library targets that tests include; GoogleTest's main is added.
      size: as of cc_test.
      **kwargs: further arguments of cc_test.
    """
    sources = [test + ".cc" for test in tests]
    _one_file(name = name + "_file", testonly = True, srcs = sources, out = name + ".cc")
    native.cc_library(
        name = name + "_sources",
        testonly = True,
        hdrs = hdrs,
        textual_hdrs = sources,
        visibility = ["//visibility:private"],
    )
    native.cc_test(
        name = name,
        size = size,
        srcs = [name + ".cc"],
        deps = deps + [":" + name + "_sources", "//third_party:gtest_main"],
        **kwargs
    )
