"""C++ code from .proto files, by the system's protoc and grpc_cpp_plugin."""

def cc_proto(name, deps = [], services = False, visibility = None):
    """Generates and compiles NAME.proto of this package.

    Args:
      name: the file's base name, and the resulting cc_library's name with `_cc` appended: the messages.
        With `services`, `NAME_grpc` is the library of the stubs, kept apart because its headers are costly.
      deps: base names of the files of this package that it imports.
      services: whether the file declares services.
      visibility: of the resulting libraries.
    """
    package = native.package_name()
    src = name + ".proto"
    srcs = [src] + [dep + ".proto" for dep in deps]
    messages = [name + ".pb.h", name + ".pb.cc"]
    native.genrule(
        name = name + "_messages",
        srcs = srcs,
        outs = messages,
        cmd = "protoc -I. --cpp_out=$(GENDIR) $(location %s)" % src,
    )
    native.cc_library(
        name = name + "_cc",
        srcs = [name + ".pb.cc"],
        hdrs = [name + ".pb.h"],
        visibility = visibility,
        deps = [dep + "_cc" for dep in deps] + ["//third_party:protobuf"],
    )
    if not services:
        return
    native.genrule(
        name = name + "_stubs",
        srcs = srcs,
        outs = [name + ".grpc.pb.h", name + ".grpc.pb.cc"],
        cmd = "protoc -I. --grpc_out=$(GENDIR) --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin $(location %s)" % src,
    )
    native.cc_library(
        name = name + "_grpc",
        srcs = [name + ".grpc.pb.cc"],
        hdrs = [name + ".grpc.pb.h"],
        visibility = visibility,
        deps = [
            ":" + name + "_cc",
            "//third_party:grpc",
        ],
    )
