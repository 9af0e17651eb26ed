#include "client/plan/mesh_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "client/terminal/format.h"
#include "common/mesh/mesh.h"
#include "common/mesh/zero.h"

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
  return "keys and values";
}

std::string Members(const std::vector<int>& group) {
  const size_t shown = std::min(group.size(), kMostMembers);
  return absl::StrCat("{", absl::StrJoin(group.begin(), group.begin() + shown, ", "),
                      shown < group.size() ? ", …}" : "}");
}

std::string Groups(const Mesh& mesh, const std::string& axis) {
  const std::vector<std::vector<int>> groups = mesh.Groups(axis);
  const size_t shown = std::min(groups.size(), kMostGroups);
  return absl::StrCat(absl::StrJoin(groups.begin(), groups.begin() + shown, " ",
                                    [](std::string* out, const std::vector<int>& group) {
                                      absl::StrAppend(out, Members(group));
                                    }),
                      shown < groups.size() ? " …" : "");
}

}  // namespace

std::string MeshText(const v1::JobSpec& spec) {
  const auto mesh = Mesh::FromSpec(spec.parallelism(), static_cast<int>(spec.workers()));
  if (!mesh.ok() || mesh->size("data") == mesh->world_size()) return "";
  std::vector<Mesh::Axis> axes;
  for (const Mesh::Axis& axis : mesh->axes()) {
    if (axis.size > 1) axes.push_back(axis);
  }
  const std::string sizes = absl::StrJoin(axes, " x ", [](std::string* out, const auto& axis) {
    absl::StrAppend(out, axis.name, " ", axis.size);
  });
  std::vector<std::vector<std::string>> slots = {{"slot"}};
  for (const Mesh::Axis& axis : axes) slots[0].push_back(axis.name);
  for (int slot = 0; slot < std::min(mesh->world_size(), kMostSlots); ++slot) {
    slots.push_back({absl::StrCat(slot)});
    for (const Mesh::Axis& axis : axes) {
      slots.back().push_back(absl::StrCat(mesh->Coordinate(slot, axis.name)));
    }
  }
  std::vector<std::vector<std::string>> groups = {{"axis", "groups of slots", "exchange"}};
  for (const Mesh::Axis& axis : axes) {
    groups.push_back({axis.name, Groups(*mesh, axis.name), Exchanged(spec, axis.name)});
  }
  return absl::StrCat("Mesh of ", mesh->world_size(), " slots: ", sizes, "\n", FormatTable(slots),
                      mesh->world_size() > kMostSlots ? "…\n" : "", "\n", FormatTable(groups));
}

}  // namespace muster
