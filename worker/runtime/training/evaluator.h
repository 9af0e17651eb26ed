#ifndef MUSTER_WORKER_RUNTIME_TRAINING_EVALUATOR_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_EVALUATOR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/data/dataset.h"
#include "worker/data/sampling/evaluation_share.h"
#include "worker/data/sampling/split.h"
#include "worker/nn/model.h"
#include "worker/runtime/training/step_engine.h"

namespace muster {

namespace v1 {
class EvaluationSpec;
class ReportEvaluationRequest;
}  // namespace v1

// Runs one slot's share of an evaluation: forward passes over its held-out examples, with the
// parameters and rows of one clock. Sums, scores or bins of all slots are combined by the
// coordinator. Used by the trainer's thread.
class Evaluator {
 public:
  // Scores and labels of all slots, gathered for an exact AUC, take at most this; it is also what a
  // message may hold.
  static constexpr int64_t kMaxScoreBytes = (int64_t{64} << 20) - 4096;

  // What is lent must outlive the evaluator. InvalidArgument: the metric is not known, or (auc)
  // would gather more than kMaxScoreBytes.
  static absl::StatusOr<std::unique_ptr<Evaluator>> Create(const v1::EvaluationSpec& spec,
                                                           const Split& split, int64_t slot,
                                                           int64_t slots, const Dataset& dataset,
                                                           const ModelDescription& model);

  // Whether there is anything to evaluate, on any slot.
  bool any() const { return any_; }

  // Evaluates at the clock of the engine's last BeginEvaluation, which is `clock`, and fills all of
  // `report` but the task. OutOfRange: the loss is not finite. InvalidArgument: the metric needs
  // scores, which the model does not give. Otherwise errors of the data and of the engine.
  absl::Status Evaluate(uint64_t clock, StepEngine& engine, v1::ReportEvaluationRequest& report);

 private:
  Evaluator(std::string metric, const EvaluationShare& share, bool any, const Dataset& dataset);

  // Bytes of the source that these labels stand for.
  double SourceBytes(absl::Span<const int32_t> labels) const;
  absl::Status AddResults(const PassResult& pass, v1::ReportEvaluationRequest& report) const;

  const std::string metric_;
  const EvaluationShare share_;
  const bool any_;
  const Dataset& dataset_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_EVALUATOR_H_
