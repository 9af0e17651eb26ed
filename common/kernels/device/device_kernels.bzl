"""Kernels for devices: a family's headers, and its code compiled once for GPUs and once for the emulation."""

load("//third_party/cuda:cuda.bzl", "cuda_sources")

def device_kernels(name, hdrs, srcs, deps = [], code_deps = [], visibility = None):
    """NAME: the headers alone; NAME_emulated and NAME_cuda: what they declare.

    Args:
      name: of the library of headers.
      hdrs: plain C++, for those who launch.
      srcs: .cc files, compiled by the C++ compiler for NAME_emulated and by nvcc for NAME_cuda.
      deps: of the headers.
      code_deps: what else the sources need.
      visibility: of NAME; the others are for this package's own bundles of all families.
    """
    native.cc_library(
        name = name,
        hdrs = hdrs,
        visibility = visibility,
        deps = deps,
    )
    native.cc_library(
        name = name + "_emulated",
        srcs = srcs,
        # #pragma unroll is nvcc's.
        copts = ["-Wno-unknown-pragmas"],
        alwayslink = True,
        visibility = ["//visibility:private"],
        deps = [":" + name, ":simt"] + code_deps,
    )
    cuda_sources(
        name = name + "_cuda",
        srcs = srcs,
        visibility = ["//visibility:private"],
        deps = [":" + name, ":simt"] + code_deps,
    )

def device_kernel_test(name, src, deps, size = "small"):
    """NAME: a test on the emulation; NAME_cases: the same source, for tests/gpu."""
    native.cc_library(
        name = name + "_cases",
        testonly = True,
        srcs = [src],
        alwayslink = True,
        visibility = ["//:tests"],
        deps = deps + [
            ":device_test_lib",
            "//third_party:gtest",
        ],
    )
    native.cc_test(
        name = name,
        size = size,
        deps = [
            ":" + name + "_cases",
            ":emulated",
            "//third_party:gtest_main",
        ],
    )
