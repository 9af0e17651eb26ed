#include "server/coordinator/lifecycle/left_workers.h"

#include <algorithm>
#include <string>

#include "common/text/utf8.h"

namespace muster {

bool HasLeft(const v1::JobRecord& record, absl::string_view worker_id) {
  const auto& left = record.left_workers();
  return std::any_of(left.begin(), left.end(),
                     [&](const v1::LeftWorker& worker) { return worker.worker_id() == worker_id; });
}

std::vector<uint32_t> SlotsOnLeftWorkers(const v1::JobRecord& record) {
  std::vector<uint32_t> slots;
  for (int slot = 0; slot < record.slots_size(); ++slot) {
    const v1::SlotRecord& holder = record.slots(slot);
    if (!holder.done() && HasLeft(record, holder.worker_id())) slots.push_back(slot);
  }
  return slots;
}

void Leave(v1::JobRecord& record, absl::string_view worker_id, absl::string_view reason,
           int64_t unix_ms) {
  if (HasLeft(record, worker_id)) return;
  v1::LeftWorker& left = *record.add_left_workers();
  left.set_worker_id(std::string(worker_id));
  left.set_reason(ToUtf8(reason));
  left.set_unix_ms(unix_ms);
}

}  // namespace muster
