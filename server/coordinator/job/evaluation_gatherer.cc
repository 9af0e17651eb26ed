#include "server/coordinator/job/evaluation_gatherer.h"

#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/eval/auc.h"
#include "common/eval/metric.h"
#include "common/eval/regression_sums.h"

namespace muster {
namespace {

uint64_t ScoreBytes(const v1::ReportEvaluationRequest& share) {
  return share.scores().size() + share.labels().size();
}

// Labels take one byte per example.
absl::Status AppendLabels(const v1::ReportEvaluationRequest& share, std::vector<uint8_t>& labels) {
  const std::string& bytes = share.labels();
  const size_t examples = share.scores().size() / sizeof(float);
  if (bytes.size() == examples) {
    labels.insert(labels.end(), bytes.begin(), bytes.end());
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("evaluation at clock ", share.clock(), ": slot ", share.task().slot(), " sent ",
                   bytes.size(), " bytes of labels for ", examples, " scores; send one byte each"));
}

}  // namespace

absl::Status EvaluationGatherer::Add(const v1::ReportEvaluationRequest& share) {
  if (!shares_.empty() && clock() != share.clock()) shares_.clear();
  const uint32_t slot = share.task().slot();
  if (!shares_.empty() && shares_.begin()->second.metric() != share.metric()) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation at clock ", share.clock(), ": slot ", shares_.begin()->first,
                     " reports ", shares_.begin()->second.metric(), ", slot ", slot, " ",
                     share.metric(), "; run the same release on all workers"));
  }
  if (share.scores().size() % sizeof(float) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("evaluation at clock ", share.clock(), ": slot ",
                                                   slot, " sent ", share.scores().size(),
                                                   " bytes of scores, which is no multiple of 4"));
  }
  uint64_t bytes = ScoreBytes(share);
  for (const auto& [other, present] : shares_) bytes += other == slot ? 0 : ScoreBytes(present);
  if (bytes > kMaxScoreBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation.metric is auc, whose scores and labels come to at least ", bytes,
                     " bytes; at most ", kMaxScoreBytes,
                     " are gathered: use binned_auc, or limit evaluation.max_examples"));
  }
  shares_[slot] = share;
  return absl::OkStatus();
}

absl::StatusOr<double> EvaluationGatherer::Auc() const {
  std::vector<float> scores;
  std::vector<uint8_t> labels;
  for (const auto& [slot, share] : shares_) {
    const size_t begin = scores.size();
    scores.resize(begin + share.scores().size() / sizeof(float));
    // The wire is little-endian, as is every machine that this builds for.
    std::memcpy(scores.data() + begin, share.scores().data(), share.scores().size());
    MUSTER_RETURN_IF_ERROR(AppendLabels(share, labels));
  }
  return ExactAuc(scores, labels);
}

absl::StatusOr<double> EvaluationGatherer::BinnedAucOfAll() const {
  std::vector<uint64_t> positive, negative;
  for (const auto& [slot, share] : shares_) {
    if (positive.empty()) {
      positive.resize(share.positive_bins_size());
      negative.resize(share.negative_bins_size());
    }
    if (share.positive_bins_size() != static_cast<int>(positive.size()) ||
        share.negative_bins_size() != static_cast<int>(negative.size())) {
      return absl::InvalidArgumentError(
          absl::StrCat("evaluation at clock ", share.clock(), ": slot ", slot, " sent ",
                       share.positive_bins_size(), " and ", share.negative_bins_size(),
                       " bins, others ", positive.size(), " and ", negative.size()));
    }
    for (size_t i = 0; i < positive.size(); ++i) positive[i] += share.positive_bins(i);
    for (size_t i = 0; i < negative.size(); ++i) negative[i] += share.negative_bins(i);
  }
  return BinnedAuc(positive, negative);
}

absl::StatusOr<v1::EvaluationResult> EvaluationGatherer::Result() const {
  EvaluationSums sums;
  for (const auto& [slot, share] : shares_) {
    sums.loss_sum += share.loss_sum();
    sums.correct += share.correct();
    sums.examples += share.examples();
    const uint64_t weight = share.loss_weight() > 0 ? share.loss_weight() : share.examples();
    sums.labels += weight;
    sums.text_bytes += share.text_bytes() > 0 ? share.text_bytes() : static_cast<double>(weight);
    if (!IsOfRegression(share.metric())) continue;
    absl::StatusOr<RegressionSums> errors = UnpackSums(share.scores());
    if (!errors.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("evaluation at clock ", clock(), ": slot ",
                                                     slot, ": ", errors.status().message()));
    }
    sums.regression += *errors;
  }
  const std::string& metric = shares_.begin()->second.metric();
  absl::StatusOr<double> value;
  if (metric == "auc") {
    value = Auc();
  } else if (metric == "binned_auc") {
    value = BinnedAucOfAll();
  } else {
    value = MetricFromSums(metric, sums);
  }
  v1::EvaluationResult result;
  result.set_clock(clock());
  result.set_metric(metric);
  result.set_examples(sums.examples);
  if (value.ok()) {
    result.set_value(*value);
  } else if (absl::IsFailedPrecondition(value.status())) {
    result.set_no_value(std::string(value.status().message()));
  } else {
    return absl::Status(value.status().code(), absl::StrCat("evaluation at clock ", clock(), ": ",
                                                            value.status().message()));
  }
  const absl::StatusOr<double> loss = MetricFromSums("loss", sums);
  if (loss.ok()) result.set_loss(*loss);
  return result;
}

}  // namespace muster
