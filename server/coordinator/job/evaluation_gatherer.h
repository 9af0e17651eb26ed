#ifndef MUSTER_SERVER_COORDINATOR_JOB_EVALUATION_GATHERER_H_
#define MUSTER_SERVER_COORDINATOR_JOB_EVALUATION_GATHERER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/status.pb.h"
#include "proto/task_service.pb.h"

namespace muster {

// Bytes of scores and labels that an exact AUC may gather over all slots.
inline constexpr uint64_t kMaxScoreBytes = 64 << 20;

// Combines the slots' shares of the evaluation at one clock. Every share is added once per slot,
// whatever the order of arrival; sums are taken in slot order, so that the same shares give the
// same bits. Not thread-safe.
class EvaluationGatherer {
 public:
  // Takes a slot's share; a repeat replaces. A share of another clock than the present ones starts
  // over. INVALID_ARGUMENT, which ends the job: the share is malformed, its metric is not that of
  // the other slots, or the scores of all slots together exceed kMaxScoreBytes (the message names
  // binned_auc).
  absl::Status Add(const v1::ReportEvaluationRequest& share);

  // The slot's task is gone.
  void Forget(uint32_t slot) { shares_.erase(slot); }

  bool any() const { return !shares_.empty(); }
  // `reporting` slots take part, all of them unless some are away.
  bool complete(size_t reporting) const { return shares_.size() >= reporting; }

  // A metric that is undefined on these examples has no value in the result, which says why.
  // REQUIRES: any(). INVALID_ARGUMENT, which ends the job: what slots sent makes no result.
  absl::StatusOr<v1::EvaluationResult> Result() const;

  // After a result was taken.
  void Clear() { shares_.clear(); }

  // Of the present shares. REQUIRES: at least one.
  uint64_t clock() const { return shares_.begin()->second.clock(); }

 private:
  absl::StatusOr<double> Auc() const;
  absl::StatusOr<double> BinnedAucOfAll() const;

  std::map<uint32_t, v1::ReportEvaluationRequest> shares_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_EVALUATION_GATHERER_H_
