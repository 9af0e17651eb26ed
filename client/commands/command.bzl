"""The libraries of commands."""

load("//third_party/bazel:folder.bzl", "library")

# What every command includes.
_EVERY = [
    ":commands_header",
    "//client/cluster:session",
    "//third_party:absl",
    "//third_party:cli11",
]

def command(name, deps = []):
    """The library of NAME.cc, which adds a command to the command line.

    Args:
      name: its room and the name of the command.
      deps: cc_library targets that its file includes, beside those that every command includes.
    """
    return library(name, _EVERY + deps, srcs = [name + ".cc"])
