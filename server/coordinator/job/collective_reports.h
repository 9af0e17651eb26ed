#ifndef MUSTER_SERVER_COORDINATOR_JOB_COLLECTIVE_REPORTS_H_
#define MUSTER_SERVER_COORDINATOR_JOB_COLLECTIVE_REPORTS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "proto/status.pb.h"
#include "proto/task_service.pb.h"

namespace muster {

// Collective calls kept per slot.
inline constexpr int kMaxCollectiveRecords = 1000;

// The last collective calls of a job's slots, as they told of them, and who is still to tell. Stays
// as it is when a task fails, so that what it saw last can be read afterwards. Not thread-safe.
class CollectiveReports {
 public:
  // Somebody wants to see the calls as they are now. Returns the number of the question.
  uint64_t Ask() { return ++asked_; }

  // Whether the slot has not told since it was asked last.
  bool Wanted(uint32_t slot) const { return !HasTold(slot, asked_); }
  // … or since that question.
  bool HasTold(uint32_t slot, uint64_t question) const;

  // Replaces what the slot told before; of too many calls the last are kept.
  void Tell(const v1::ReportCollectivesRequest& report, int64_t unix_ms);

  // In order of slot; those that never told are left out.
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
