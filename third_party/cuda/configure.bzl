"""Finds the CUDA toolkit with NCCL: $CUDA_HOME, else /usr/local/cuda. Only looks; builds nothing."""

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "headers",
    hdrs = glob([
        "include/*.h",
        "include/*.hpp",
        "include/crt/**",
        "include/cccl/nv/**",
    ]),
    includes = [
        "include",
        "include/cccl",
    ],
)

cc_library(
    name = "runtime",
    srcs = ["lib/libcudart_static.a"],
    linkopts = ["-ldl", "-lrt", "-lpthread"],
    deps = [":headers"],
)

# By its absolute folder, so that built programs run in place; elsewhere the loader's own path counts.
cc_library(
    name = "nccl",
    linkopts = ["-L{library}", "-l:libnccl.so.2", "-Wl,-rpath,{library}"],
)

cc_library(
    name = "cublaslt",
    linkopts = ["-L{library}", "-lcublasLt", "-Wl,-rpath,{library}"],
)
"""

# Without a toolkit the targets exist all the same, empty: what depends on them is skipped, but looked at.
_NOTHING = """
package(default_visibility = ["//visibility:public"])

[cc_library(name = name) for name in ["headers", "runtime", "nccl", "cublaslt"]]
"""

_NEEDED = [
    "bin/nvcc",
    "include/cublasLt.h",
    "include/cuda_runtime_api.h",
    "include/nccl.h",
    "lib64/libcublasLt.so",
    "lib64/libcudart_static.a",
    "lib64/libnccl.so.2",
]

def _local_cuda_impl(repository_ctx):
    home = repository_ctx.os.environ.get("CUDA_HOME", "") or "/usr/local/cuda"
    missing = [name for name in _NEEDED if not repository_ctx.path(home + "/" + name).exists]
    if missing:
        repository_ctx.file("BUILD", _NOTHING)
    else:
        repository_ctx.symlink(home + "/include", "include")
        repository_ctx.symlink(home + "/lib64/libcudart_static.a", "lib/libcudart_static.a")
        repository_ctx.file("BUILD", _BUILD.format(library = home + "/lib64"))
    repository_ctx.file("defs.bzl", "CUDA_AVAILABLE = {available}\nCUDA_HOME = \"{home}\"\n".format(
        available = not missing,
        home = home,
    ))

# `defs.bzl` of the repository says whether a toolkit was found, and where.
local_cuda = repository_rule(
    implementation = _local_cuda_impl,
    environ = ["CUDA_HOME"],
    local = True,
)
