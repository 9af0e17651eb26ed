#include "client/plan/mesh_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "client/terminal/format.h"
#include "common/mesh/job_mesh.h"
#include "common/mesh/mesh.h"

namespace muster {
namespace {

// Most slots whose coordinates are shown, groups of an axis, and slots of a group.
constexpr int kMostSlots = 16;
constexpr size_t kMostGroups = 4;
constexpr size_t kMostMembers = 8;

// Returns what the ranks of a group along the axis tell one another.
std::string Exchanged(const v1::JobSpec& spec, absl::string_view axis) {
  if (axis == "data") {
    return ZeroStage(spec) > 0 ? "gradients and weights of their shares" : "gradients";
  }
  if (axis == "tensor") return "activations, within every layer";
  if (axis == "pipeline") return "activations, between layers";
  if (axis == "expert") return "rows of tokens, within every layer of experts";
  return "keys and values, within every layer; gradients";
}

std::string Members(const std::vector<int>& group) {
  const size_t shown = std::min(group.size(), kMostMembers);
  return absl::StrCat("{", absl::StrJoin(group.begin(), group.begin() + shown, ", "),
                      shown < group.size() ? ", …}" : "}");
}

std::string Groups(const Mesh& mesh, Axes axes) {
  const std::vector<std::vector<int>> groups = mesh.Groups(axes);
  const size_t shown = std::min(groups.size(), kMostGroups);
  return absl::StrCat(absl::StrJoin(groups.begin(), groups.begin() + shown, " ",
                                    [](std::string* out, const std::vector<int>& group) {
                                      absl::StrAppend(out, Members(group));
                                    }),
                      shown < groups.size() ? " …" : "");
}

}  // namespace

std::string MeshText(const v1::JobSpec& spec) {
  const Mesh mesh = MeshOf(spec);
  if (mesh.size(kModelAxes) == 1 && mesh.size(kExpertAxes) == 1) return "";
  std::vector<NamedAxes> named;
  for (const NamedAxes& axes : JobAxes()) {
    if (mesh.size(axes.axes) > 1) named.push_back(axes);
  }
  std::vector<std::string> factors;
  for (const auto& [name, axes] : named) {
    if (!(axes == kExpertAxes)) factors.push_back(absl::StrCat(name, " ", mesh.size(axes)));
  }
  const std::string sizes = absl::StrJoin(factors, " x ");
  std::vector<std::vector<std::string>> slots = {{"slot"}};
  for (const NamedAxes& axes : named) slots[0].emplace_back(axes.name);
  for (int slot = 0; slot < std::min(mesh.world_size(), kMostSlots); ++slot) {
    slots.push_back({absl::StrCat(slot)});
    for (const NamedAxes& axes : named) {
      slots.back().push_back(absl::StrCat(mesh.Position(slot, axes.axes)));
    }
  }
  std::vector<std::vector<std::string>> groups = {{"axis", "groups of slots", "exchange"}};
  for (const auto& [name, axes] : named) {
    groups.push_back({std::string(name), Groups(mesh, axes), Exchanged(spec, name)});
  }
  return absl::StrCat("Mesh of ", mesh.world_size(), " slots: ", sizes, "\n", FormatTable(slots),
                      mesh.world_size() > kMostSlots ? "…\n" : "", "\n", FormatTable(groups));
}

}  // namespace muster
