#include "server/coordinator/cluster/tensor_groups.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/mesh/tensor_ranks.h"

namespace muster {
namespace {

// Adds the workers of `count` slots from `first` on that are not there yet, in order of slot.
void AddWorkers(const v1::JobRecord& record, uint32_t first, uint32_t count,
                std::vector<std::string>& workers) {
  const uint32_t end = std::min<uint32_t>(first + count, record.slots_size());
  for (uint32_t slot = first; slot < end; ++slot) {
    const std::string& worker = record.slots(static_cast<int>(slot)).worker_id();
    const bool known = std::find(workers.begin(), workers.end(), worker) != workers.end();
    if (!worker.empty() && !known) workers.push_back(worker);
  }
}

}  // namespace

std::vector<std::string> WorkersOfTensorGroup(const v1::JobRecord& record, uint32_t slot) {
  const uint32_t ranks = TensorRanks(record.spec());
  const uint32_t first = slot / ranks * ranks;
  std::vector<std::string> workers;
  AddWorkers(record, first, slot - first, workers);
  AddWorkers(record, slot + 1, first + ranks - slot - 1, workers);
  return workers;
}

std::vector<std::string> SplitTensorGroups(const v1::JobRecord& record) {
  const uint32_t ranks = TensorRanks(record.spec());
  std::vector<std::string> lines;
  for (uint32_t first = 0; ranks > 1 && first + ranks <= record.spec().workers(); first += ranks) {
    std::vector<std::string> workers;
    AddWorkers(record, first, ranks, workers);
    if (workers.size() < 2) continue;
    const std::string last = workers.back();
    workers.pop_back();
    lines.push_back(absl::StrCat("tensor group of slots ", first, "-", first + ranks - 1,
                                 " spans workers ", absl::StrJoin(workers, ", "), " and ", last));
  }
  return lines;
}

}  // namespace muster
