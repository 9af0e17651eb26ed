#include "worker/runtime/training/evaluator.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/eval/auc.h"
#include "common/eval/confusion.h"
#include "common/eval/metric.h"
#include "common/plan/ranks/planned_stages.h"
#include "proto/data_preparation.pb.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"
#include "proto/task_service.pb.h"
#include "worker/nn/diverged_error.h"

namespace muster {
namespace {

// A score and its label.
constexpr int64_t kScoreBytes = sizeof(float) + 1;

bool NeedsScores(absl::string_view metric) { return metric == "auc" || metric == "binned_auc"; }

bool IsKnown(absl::string_view metric) {
  return metric == "loss" || metric == "perplexity" || metric == "accuracy" ||
         metric == "bits_per_byte" || NeedsScores(metric) || IsOfRegression(metric);
}

// Makes `confusion` the matrix of no examples, for a model that predicts `classes` classes. Labels
// are those that the weights were trained with (DatasetInfo::preparation), or the classes' numbers.
// A class beyond the labels of the training data is "class N". If there are too many classes
// (common/eval/confusion.h), there are neither labels nor counts.
void BeginConfusion(const DatasetInfo& data, int64_t classes, v1::Confusion& confusion) {
  confusion.Clear();
  confusion.set_classes(static_cast<uint32_t>(classes));
  if (classes > kMostConfusionClasses) return;
  v1::DataPreparation preparation;
  // The dataset made it, or has read it before.
  preparation.ParseFromString(data.preparation);
  const auto& known = preparation.csv().classes();
  for (int c = 0; c < classes; ++c) {
    if (known.empty()) {
      confusion.add_labels(absl::StrCat(c));
    } else {
      confusion.add_labels(c < known.size() ? known[c] : absl::StrCat("class ", c));
    }
  }
  confusion.mutable_counts()->Resize(static_cast<int>(classes * classes), 0);
}

// Counts examples: example i is of class labels[i], and the model predicts class predicted[i].
void CountExamples(absl::Span<const int32_t> labels, absl::Span<const int32_t> predicted,
                   v1::Confusion& confusion) {
  const int classes = static_cast<int>(confusion.classes());
  for (size_t i = 0; i < labels.size(); ++i) {
    const int at = labels[i] * classes + predicted[i];
    confusion.set_counts(at, confusion.counts(at) + 1);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Evaluator>> Evaluator::Create(const v1::JobSpec& spec,
                                                             const Split& split, int64_t data_rank,
                                                             int64_t data_ranks,
                                                             const Dataset& dataset,
                                                             const ModelDescription& model) {
  const v1::EvaluationSpec& evaluation = spec.evaluation();
  const std::string metric =
      evaluation.metric().empty() ? model.default_metric : evaluation.metric();
  if (!IsKnown(metric)) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation.metric is \"", metric,
                     "\"; one of loss, perplexity, accuracy, auc, binned_auc, bits_per_byte, "
                     "rmse, mae and r2"));
  }
  EvaluationShareOptions options;
  options.data_rank = data_rank;
  options.data_ranks = data_ranks;
  options.max_examples = static_cast<int64_t>(evaluation.max_examples());
  const int64_t evaluated =
      options.max_examples == 0 ? split.held_out : std::min(split.held_out, options.max_examples);
  const bool fit = evaluated <= kMaxScoreBytes / kScoreBytes;
  if (metric == "auc" && !fit) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation.metric is \"auc\", whose scores of ", evaluated, " examples take ",
                     evaluated * kScoreBytes, " bytes; the limit is ", kMaxScoreBytes,
                     "; take binned_auc, or set evaluation.max_examples to at most ",
                     kMaxScoreBytes / kScoreBytes));
  }
  Figures figures = {.metric = metric};
  if (spec.stop().evaluate_only()) figures.confusion_classes = model.classes;
  if (NeedsScores(metric) || figures.confusion_classes == 2) {
    figures.scores = fit && metric != "binned_auc" ? Scores::kExact : Scores::kBinned;
  }
  return std::unique_ptr<Evaluator>(
      new Evaluator(std::move(figures), EvaluationShare(split, options), evaluated > 0, dataset));
}

Evaluator::Evaluator(Figures figures, const EvaluationShare& share, bool any,
                     const Dataset& dataset)
    : figures_(std::move(figures)), share_(share), any_(any), dataset_(dataset) {}

void Evaluator::Begin(uint64_t clock, v1::ReportEvaluationRequest& report) const {
  report.set_clock(clock);
  report.set_metric(figures_.metric);
  if (figures_.confusion_classes > 0) {
    BeginConfusion(dataset_.info(), figures_.confusion_classes, *report.mutable_confusion());
  }
  if (figures_.scores != Scores::kBinned) return;
  const ScoreBins none;
  report.mutable_positive_bins()->Add(none.positive.begin(), none.positive.end());
  report.mutable_negative_bins()->Add(none.negative.begin(), none.negative.end());
}

void Evaluator::LeaveOutResults(v1::ReportEvaluationRequest& report) const {
  const uint64_t clock = report.clock();
  report.Clear();
  Begin(clock, report);
}

absl::Status Evaluator::Evaluate(uint64_t clock, StepEngine& engine,
                                 v1::ReportEvaluationRequest& report) {
  Begin(clock, report);
  Batch batch;
  std::vector<int64_t> examples;
  PassResult pass;
  const bool counts = !report.confusion().counts().empty();
  const PassOutput output = counts ? PassOutput::kProbabilities : PassOutput::kScores;
  if (figures_.scores == Scores::kExact) {
    // A string that grows would take half as much again, which `muster plan` does not count.
    const int64_t most = share_.Batches(1);
    report.mutable_scores()->reserve(most * sizeof(float));
    report.mutable_labels()->reserve(most);
  }
  const int64_t at_once =
      std::min<int64_t>(engine.most_examples(), ExamplesOfPass(dataset_.info().labels_per_example));
  for (int64_t i = 0; i < share_.Batches(at_once); ++i) {
    share_.BatchExamples(i, at_once, examples);
    MUSTER_RETURN_IF_ERROR(dataset_.Read(examples, batch));
    MUSTER_RETURN_IF_ERROR(engine.Evaluate(batch, output, pass));
    report.set_text_bytes(report.text_bytes() + SourceBytes(batch.labels));
    MUSTER_RETURN_IF_ERROR(AddResults(pass, report));
  }
  if (!std::isfinite(report.loss_sum())) {
    return DivergedError(
        absl::StrCat("the held-out loss after step ", clock, " is ", report.loss_sum()));
  }
  return absl::OkStatus();
}

double Evaluator::SourceBytes(absl::Span<const int32_t> labels) const {
  const std::vector<int32_t>& bytes = dataset_.info().label_bytes;
  int64_t sum = 0;
  for (const int32_t label : labels) {
    if (label >= 0) sum += bytes.empty() ? 1 : bytes[label];
  }
  return static_cast<double>(sum);
}

absl::Status Evaluator::AddErrors(const PassResult& pass,
                                  v1::ReportEvaluationRequest& report) const {
  if (!dataset_.info().target.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation.metric is \"", figures_.metric,
                     "\", which needs a number to predict, but the model predicts classes; take a "
                     "model with regression, or another metric"));
  }
  const double deviation = dataset_.info().target->deviation;
  v1::ErrorSums& sums = *report.mutable_errors();
  for (size_t i = 0; i < pass.targets.size(); ++i) {
    const double target = pass.targets[i] * deviation;
    const double error = pass.scores[i] * deviation - target;
    sums.set_squared_errors(sums.squared_errors() + error * error);
    sums.set_absolute_errors(sums.absolute_errors() + std::abs(error));
    sums.set_deviations(sums.deviations() + target);
    sums.set_squared_deviations(sums.squared_deviations() + target * target);
  }
  return absl::OkStatus();
}

absl::Status Evaluator::AddResults(const PassResult& pass,
                                   v1::ReportEvaluationRequest& report) const {
  report.set_loss_sum(report.loss_sum() + pass.loss_sum);
  report.set_correct(report.correct() + pass.correct);
  report.set_examples(report.examples() + pass.examples);
  report.set_loss_weight(report.loss_weight() + pass.loss_weight);
  if (IsOfRegression(figures_.metric)) return AddErrors(pass, report);
  if (!report.confusion().counts().empty()) {
    CountExamples(pass.labels, pass.predicted, *report.mutable_confusion());
  }
  return figures_.scores == Scores::kNone ? absl::OkStatus() : AddScores(pass, report);
}

absl::Status Evaluator::AddScores(const PassResult& pass,
                                  v1::ReportEvaluationRequest& report) const {
  const absl::Span<const float> scores = pass.scores;
  const std::vector<uint8_t> labels(pass.labels.begin(), pass.labels.end());
  if (scores.size() != labels.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation.metric is \"", figures_.metric,
                     "\", which needs a score per example, but the model gave ", scores.size(),
                     " for ", labels.size(), "; take a model of two classes, or another metric"));
  }
  if (figures_.scores == Scores::kExact) {
    report.mutable_scores()->append(reinterpret_cast<const char*>(scores.data()),
                                    scores.size() * sizeof(float));
    report.mutable_labels()->append(labels.begin(), labels.end());
    return absl::OkStatus();
  }
  ScoreBins bins;
  MUSTER_RETURN_IF_ERROR(AddToBins(scores, labels, bins));
  for (size_t i = 0; i < bins.positive.size(); ++i) {
    report.set_positive_bins(i, report.positive_bins(i) + bins.positive[i]);
    report.set_negative_bins(i, report.negative_bins(i) + bins.negative[i]);
  }
  return absl::OkStatus();
}

}  // namespace muster
