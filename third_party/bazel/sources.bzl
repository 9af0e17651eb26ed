"""The sources that programs are made of."""

_Sources = provider(fields = ["files"])

def _collect_impl(target, ctx):
    own = [
        file
        for name in ["srcs", "hdrs", "textual_hdrs"]
        for file in getattr(ctx.rule.files, name, [])
        if file.is_source and not file.owner.workspace_name
    ]
    below = [dep[_Sources].files for dep in getattr(ctx.rule.attr, "deps", []) if _Sources in dep]
    return [_Sources(files = depset(own, transitive = below))]

_collect = aspect(implementation = _collect_impl, attr_aspects = ["deps"])

def _sources_of_impl(ctx):
    files = depset(transitive = [each[_Sources].files for each in ctx.attr.programs])
    return [DefaultInfo(files = files, runfiles = ctx.runfiles(transitive_files = files))]

# The sources and headers of this repository in the programs and in all that they depend on. Builds none of them.
sources_of = rule(
    implementation = _sources_of_impl,
    attrs = {"programs": attr.label_list(aspects = [_collect], mandatory = True)},
)
