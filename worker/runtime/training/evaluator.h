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
class JobSpec;
class ReportEvaluationRequest;
}  // namespace v1

// Runs one data rank's share of an evaluation: forward passes over its held-out examples, with the
// parameters and rows of one clock. All data ranks run as many passes, the last ones over no
// examples where a share is shorter. The coordinator combines all shares' results. A job that only
// evaluates a classifier also reports a confusion matrix and, for two classes, what the AUC follows
// from, whatever its metric is. Used by the trainer's thread.
class Evaluator {
 public:
  // Most bytes of all shares' scores and labels for an exact AUC: what one message can hold.
  static constexpr int64_t kMaxScoreBytes = (int64_t{64} << 20) - 4096;

  // `dataset` outlives the evaluator. InvalidArgument: unknown metric; auc above kMaxScoreBytes.
  static absl::StatusOr<std::unique_ptr<Evaluator>> Create(const v1::JobSpec& spec,
                                                           const Split& split, int64_t data_rank,
                                                           int64_t data_ranks,
                                                           const Dataset& dataset,
                                                           const ModelDescription& model);

  // Returns whether any data rank has something to evaluate.
  bool any() const { return any_; }

  // Evaluates with the parameters of `clock`, and fills in `report` except for the task. REQUIRES:
  // the engine's last BeginEvaluation was at `clock`. OutOfRange: the loss is not finite.
  // InvalidArgument: the metric needs scores or numbers, which the model does not give. Otherwise
  // errors of data and engine.
  absl::Status Evaluate(uint64_t clock, StepEngine& engine, v1::ReportEvaluationRequest& report);

  // Makes a filled-in report one of no examples, for ranks whose results another rank reports.
  void LeaveOutResults(v1::ReportEvaluationRequest& report) const;

 private:
  // Adds what the AUC follows from: all scores, or their numbers by bins where these are too many.
  enum class Scores { kNone, kExact, kBinned };
  struct Figures {
    std::string metric;
    Scores scores = Scores::kNone;
    // 0: there is no confusion matrix.
    int64_t confusion_classes = 0;
  };

  Evaluator(Figures figures, const EvaluationShare& share, bool any, const Dataset& dataset);

  // Begins a report.
  void Begin(uint64_t clock, v1::ReportEvaluationRequest& report) const;

  // Returns how many bytes of the source these labels stand for.
  double SourceBytes(absl::Span<const int32_t> labels) const;
  absl::Status AddResults(const PassResult& pass, v1::ReportEvaluationRequest& report) const;
  // Adds the errors of a pass, in the target's own unit.
  absl::Status AddErrors(const PassResult& pass, v1::ReportEvaluationRequest& report) const;
  absl::Status AddScores(const PassResult& pass, v1::ReportEvaluationRequest& report) const;

  const Figures figures_;
  const EvaluationShare share_;
  const bool any_;
  const Dataset& dataset_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_EVALUATOR_H_
