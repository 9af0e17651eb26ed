"""Rules for CUDA code: what to skip without a toolkit, and .cu files compiled by nvcc."""

load("@local_cuda//:defs.bzl", "CUDA_AVAILABLE", "CUDA_HOME")

# Machine code for A100 and H100/H200, and PTX that later GPUs compile at first use.
_CODE = ["sm_80", "sm_90", "compute_90"]

_ARCHITECTURES = ["-gencode=arch=%s,code=%s" % (code.replace("sm_", "compute_"), code) for code in _CODE]

# What programs hold, for messages.
CUDA_CODE = ",".join(_CODE)

def cuda_only():
    """Value of target_compatible_with for targets to skip unless --config=cuda is given and a toolkit is there."""
    if not CUDA_AVAILABLE:
        return ["@platforms//:incompatible"]
    return select({
        "//third_party/cuda:on": [],
        "//conditions:default": ["@platforms//:incompatible"],
    })

def _cuda_object_impl(ctx):
    object = ctx.actions.declare_file(ctx.label.name + ".o")
    context = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).compilation_context
    arguments = ctx.actions.args()
    arguments.add_all(["-x", "cu", "-c", ctx.file.src, "-o", object, "-ccbin", "g++", "-std=c++20", "-O2"])
    arguments.add_all(["-Xcompiler", "-fPIC,-Wall", "-I."])

    # Code for three architectures, of kernels in many variants: a fifth of the default's size.
    arguments.add("--compress-mode=size")
    arguments.add_all(_ARCHITECTURES)
    arguments.add_all(context.includes, before_each = "-I")
    arguments.add_all(context.quote_includes, before_each = "-I")
    arguments.add_all(context.system_includes, before_each = "-isystem")
    ctx.actions.run(
        executable = CUDA_HOME + "/bin/nvcc",
        arguments = [arguments],
        inputs = depset([ctx.file.src], transitive = [context.headers]),
        outputs = [object],
        mnemonic = "CudaCompile",
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([object]))]

_cuda_object = rule(
    implementation = _cuda_object_impl,
    attrs = {
        "src": attr.label(allow_single_file = [".cu", ".cc"], mandatory = True),
        "deps": attr.label_list(providers = [CcInfo]),
    },
)

def cuda_library(name, src, hdrs, deps = [], visibility = None):
    """One .cu file as a cc_library, and NAME_headers, what a stand-in for it implements.

    Args:
      name: of the library.
      src: the .cu file; compiled position-independent, as C++20, with g++ for its host part.
      hdrs: what others include; plain C++, so that no other target needs nvcc.
      deps: cc_library targets.
      visibility: of both libraries; None: the package's.
    """
    native.cc_library(
        name = name + "_headers",
        hdrs = hdrs,
        target_compatible_with = cuda_only(),
        visibility = visibility,
        deps = deps + ["//third_party/cuda:headers"],
    )
    _cuda_object(
        name = name + "_object",
        src = src,
        target_compatible_with = cuda_only(),
        deps = [":" + name + "_headers"],
    )
    native.cc_library(
        name = name,
        srcs = [":" + name + "_object"],
        # Those who call it may depend on its headers alone, and then come after it on the linker's command line.
        alwayslink = True,
        target_compatible_with = cuda_only(),
        visibility = visibility,
        deps = [
            ":" + name + "_headers",
            "//third_party/cuda:runtime",
        ],
    )

def cuda_sources(name, srcs, deps = [], visibility = None):
    """Files compiled by nvcc as one cc_library without headers.

    Args:
      name: of the library.
      srcs: .cu files, or .cc files that are CUDA code under nvcc and plain C++ without it.
      deps: cc_library targets, of their headers.
      visibility: of the library; None: the package's.
    """
    for src in srcs:
        _cuda_object(
            name = src + ".object",
            src = src,
            target_compatible_with = cuda_only(),
            deps = deps,
        )
    native.cc_library(
        name = name,
        srcs = [":" + src + ".object" for src in srcs],
        alwayslink = True,
        target_compatible_with = cuda_only(),
        visibility = visibility,
        deps = deps + ["//third_party/cuda:runtime"],
    )
