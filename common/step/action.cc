#include "common/step/action.h"

#include <cstddef>

namespace muster {
namespace {

struct Names {
  const char* name;
  const char* category;
};

// The names of each ActionKind.
constexpr Names kNames[] = {
    {"begin step", "parameters"},
    {"load examples", "data"},
    {"prefetch rows", "parameters"},
    {"look up rows", "parameters"},
    {"acquire", "parameters"},
    {"release", "parameters"},
    {"forward", "compute"},
    {"begin backward", "gradients"},
    {"forward and backward", "compute"},
    {"check loss", "compute"},
    {"backward", "compute"},
    {"backward of input", "compute"},
    {"backward of weights", "compute"},
    {"gradients ready", "gradients"},
    {"push rows", "gradients"},
    {"receive activation", "wait"},
    {"send activation", "wait"},
    {"receive gradient", "wait"},
    {"send gradient", "wait"},
    {"await activation", "wait"},
    {"await gradient", "wait"},
    {"finish messages", "wait"},
    {"end step", "gradients"},
    {"step", "step"},
    {"wait", "wait"},
    {"optimizer", "optimizer"},
    {"checkpoint", "checkpoint"},
    {"evaluation", "evaluation"},
    {"pull", "pull"},
    {"row pull", "pull"},
    {"push", "push"},
    {"row push", "push"},
    {"close", "push"},
    {"clip exchange", "push"},
    {"cut", "checkpoint"},
    {"call", "collective"},
    {"batch", "server"},
    {"take push", "server"},
    {"take close", "server"},
    {"serve pull", "server"},
    {"log sync", "server"},
};
static_assert(sizeof(kNames) / sizeof(kNames[0]) == static_cast<size_t>(ActionKind::kLast) + 1);

}  // namespace

absl::string_view NameOf(ActionKind kind) { return kNames[static_cast<size_t>(kind)].name; }

absl::string_view CategoryOf(ActionKind kind) { return kNames[static_cast<size_t>(kind)].category; }

}  // namespace muster
