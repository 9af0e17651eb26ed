#include "server/coordinator/job/collective_reports.h"

#include <algorithm>

namespace muster {

bool CollectiveReports::HasTold(uint32_t slot, uint64_t question) const {
  if (question == 0) return true;
  const auto it = told_.find(slot);
  return it != told_.end() && it->second.question >= question;
}

void CollectiveReports::Tell(const v1::ReportCollectivesRequest& report, int64_t unix_ms) {
  Told& told = told_[report.task().slot()];
  told.question = asked_;
  told.calls.Clear();
  told.calls.set_slot(report.task().slot());
  told.calls.set_unix_ms(unix_ms);
  const int extra = std::max(report.calls_size() - kMaxCollectiveRecords, 0);
  told.calls.mutable_calls()->Assign(report.calls().begin() + extra, report.calls().end());
}

std::vector<v1::SlotCollectives> CollectiveReports::List() const {
  std::vector<v1::SlotCollectives> slots;
  for (const auto& [slot, told] : told_) slots.push_back(told.calls);
  return slots;
}

}  // namespace muster
