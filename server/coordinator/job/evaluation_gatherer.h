#ifndef MUSTER_SERVER_COORDINATOR_JOB_EVALUATION_GATHERER_H_
#define MUSTER_SERVER_COORDINATOR_JOB_EVALUATION_GATHERER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/eval/metric.h"
#include "common/plan/memory/score_memory.h"
#include "proto/status.pb.h"
#include "proto/task_service.pb.h"

namespace muster {

// Combines the slots' shares of the evaluation at one clock. Each slot's share counts once, in any
// order of arrival; sums run in slot order, so that equal shares give equal bits. Not thread-safe.
class EvaluationGatherer {
 public:
  // Takes a slot's share; a repeat replaces it. A share of another clock discards those there are.
  // INVALID_ARGUMENT, which ends the job: the share is malformed, its metric or classes are not
  // those of the other slots, or all scores exceed kMaxScoreBytes (the message names binned_auc).
  absl::Status Add(const v1::ReportEvaluationRequest& share);

  // Discards the share of a slot whose task is gone.
  void Forget(uint32_t slot) { shares_.erase(slot); }

  bool any() const { return !shares_.empty(); }
  // Returns whether the shares of all `reporting` slots have come.
  bool complete(size_t reporting) const { return shares_.size() >= reporting; }

  // Returns the combined result, which says why a metric that is undefined has no value. REQUIRES:
  // any(). INVALID_ARGUMENT, which ends the job: the shares give no result.
  absl::StatusOr<v1::EvaluationResult> Result() const;

  // Discards all shares.
  void Clear() { shares_.clear(); }

  // Returns the clock of the present shares. REQUIRES: any().
  uint64_t clock() const { return shares_.begin()->second.clock(); }

 private:
  absl::StatusOr<double> Auc() const;
  absl::StatusOr<double> BinnedAucOfAll() const;
  // Returns the area, exact or by bins as the shares have it.
  absl::StatusOr<double> Area() const;
  EvaluationSums Sums() const;

  std::map<uint32_t, v1::ReportEvaluationRequest> shares_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_EVALUATION_GATHERER_H_
