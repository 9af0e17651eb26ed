#include "worker/collectives/host/call_plan.h"

#include <utility>

#include "common/base/fingerprint.h"

namespace muster {
namespace {

// REQUIRES: neither has counts by rank.
bool SamePlan(const ScheduleRequest& a, const ScheduleRequest& b) {
  return a.kind == b.kind && a.algorithm == b.algorithm && a.rank == b.rank && a.size == b.size &&
         a.count == b.count && a.root == b.root && a.in_place == b.in_place;
}

}  // namespace

CallPlan::CallPlan(Schedule schedule, int size)
    : schedule_(std::move(schedule)),
      sends_(size),
      receives_(size),
      elements_to_(size),
      elements_from_(size) {
  for (int i = 0; i < schedule_.transfers.size(); ++i) {
    const Transfer& transfer = schedule_.transfers[i];
    const int peer = transfer.peer;
    switch (transfer.kind) {
      case Transfer::Kind::kSend:
        sends_[peer].push_back(i);
        elements_to_[peer] += transfer.count;
        break;
      case Transfer::Kind::kReceive:
      case Transfer::Kind::kReceiveReduce:
        receives_[peer].push_back(i);
        elements_from_[peer] += transfer.count;
        break;
      case Transfer::Kind::kReduceFromAll:
        for (int from = 0; from < size; ++from) {
          receives_[from].push_back(i);
          elements_from_[from] += transfer.count;
        }
        break;
      case Transfer::Kind::kCopy:
      case Transfer::Kind::kStage:
        copies_.push_back(i);
        break;
    }
  }
}

const CallPlan& CallPlans::For(const ScheduleRequest& request) {
  if (!request.counts.empty() || !request.send_counts.empty()) {
    unique_ = std::make_unique<CallPlan>(MakeSchedule(request), request.size);
    return *unique_;
  }
  const uint64_t key = MixBits(request.count * 128 + static_cast<uint64_t>(request.kind) * 8 +
                               static_cast<uint64_t>(request.algorithm)) +
                       request.root;
  Entry& entry = entries_[key % kEntries];
  if (entry.plan == nullptr || !SamePlan(entry.request, request)) {
    entry.request = request;
    entry.plan = std::make_unique<CallPlan>(MakeSchedule(request), request.size);
  }
  return *entry.plan;
}

}  // namespace muster
