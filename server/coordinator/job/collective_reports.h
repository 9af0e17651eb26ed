#ifndef MUSTER_SERVER_COORDINATOR_JOB_COLLECTIVE_REPORTS_H_
#define MUSTER_SERVER_COORDINATOR_JOB_COLLECTIVE_REPORTS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "proto/status.pb.h"
#include "proto/task_service.pb.h"

namespace muster {

// Number of collective calls kept per slot.
inline constexpr int kMaxCollectiveRecords = 1000;

// The last collective calls that a job's slots reported, and which slots have yet to report. Kept
// when a task fails, so that the last calls it saw can be read afterwards. Not thread-safe.
class CollectiveReports {
 public:
  // Asks all slots for their present calls. Returns the number of this question.
  uint64_t Ask() { return ++asked_; }

  // Returns whether the slot has yet to answer the last question.
  bool Wanted(uint32_t slot) const { return !HasTold(slot, asked_); }
  // Returns whether the slot has reported since `question` was asked.
  bool HasTold(uint32_t slot, uint64_t question) const;

  // Replaces the slot's last report; keeps its last kMaxCollectiveRecords calls.
  void Tell(const v1::ReportCollectivesRequest& report, int64_t unix_ms);

  // Returns the reports in order of slot, without slots that never reported.
  std::vector<v1::SlotCollectives> List() const;

 private:
  struct Told {
    uint64_t question = 0;
    v1::SlotCollectives calls;
  };
  uint64_t asked_ = 0;
  std::map<uint32_t, Told> told_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_COLLECTIVE_REPORTS_H_
