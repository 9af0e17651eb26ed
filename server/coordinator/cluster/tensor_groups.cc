#include "server/coordinator/cluster/tensor_groups.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/mesh/job_mesh.h"

namespace muster {
namespace {

// Returns the workers of the slots of a group but one, in order of slot.
std::vector<std::string> WorkersOf(const v1::JobRecord& record, const std::vector<int>& group,
                                   int but) {
  std::vector<std::string> workers;
  for (const int slot : group) {
    if (slot == but || slot >= record.slots_size()) continue;
    const std::string& worker = record.slots(slot).worker_id();
    const bool known = std::find(workers.begin(), workers.end(), worker) != workers.end();
    if (!worker.empty() && !known) workers.push_back(worker);
  }
  return workers;
}

}  // namespace

std::vector<std::string> WorkersOfTensorGroup(const v1::JobRecord& record, uint32_t slot) {
  const auto own = static_cast<int>(slot);
  return WorkersOf(record, MeshOf(record.spec(), record.slots_size()).Group(own, kLayerAxes), own);
}

std::vector<std::string> SplitTensorGroups(const v1::JobRecord& record) {
  std::vector<std::string> lines;
  const Mesh mesh = MeshOf(record.spec(), record.slots_size());
  absl::string_view name = "tensor group";
  if (mesh.size(kContext) > 1) {
    name = mesh.size(Axis::kTensor) > 1 ? "group of context and tensor ranks" : "context group";
  }
  for (const std::vector<int>& group : mesh.Groups(kLayerAxes)) {
    std::vector<std::string> workers = WorkersOf(record, group, /*but=*/-1);
    if (workers.size() < 2) continue;
    const std::string last = workers.back();
    workers.pop_back();
    lines.push_back(absl::StrCat(name, " of slots ", group.front(), "-", group.back(),
                                 " spans workers ", absl::StrJoin(workers, ", "), " and ", last));
  }
  return lines;
}

}  // namespace muster
