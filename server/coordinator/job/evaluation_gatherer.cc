#include "server/coordinator/job/evaluation_gatherer.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/eval/auc.h"
#include "common/eval/metric.h"
#include "server/coordinator/job/confusion_checks.h"

namespace muster {
namespace {

// A share's error, which says of which evaluation and slot it is.
absl::Status ShareError(const v1::ReportEvaluationRequest& share, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("evaluation at clock ", share.clock(), ": slot ",
                                                 share.task().slot(), ": ", what));
}

// All sums but that of deviations are of numbers from 0.
absl::Status CheckErrors(const v1::ReportEvaluationRequest& share) {
  if (!IsOfRegression(share.metric())) return absl::OkStatus();
  if (!share.has_errors() && share.examples() > 0) {
    return absl::InvalidArgumentError(absl::StrCat("it sent no sums of errors of its ",
                                                   share.examples(),
                                                   " examples; run the same release everywhere"));
  }
  const v1::ErrorSums& errors = share.errors();
  for (const auto& [name, sum] : {std::pair("squared_errors", errors.squared_errors()),
                                  std::pair("absolute_errors", errors.absolute_errors()),
                                  std::pair("squared_deviations", errors.squared_deviations())}) {
    if (sum >= 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(name, " is ", sum, ", which is impossible"));
  }
  return absl::OkStatus();
}

uint64_t ScoreBytes(const v1::ReportEvaluationRequest& share) {
  return share.scores().size() + share.labels().size();
}

// Each example has a score, and a label of one byte.
absl::Status AppendLabels(const v1::ReportEvaluationRequest& share, std::vector<uint8_t>& labels) {
  const std::string& bytes = share.labels();
  const size_t scores = share.scores().size() / sizeof(float);
  if (scores == share.examples() && scores == bytes.size()) {
    labels.insert(labels.end(), bytes.begin(), bytes.end());
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "slot ", share.task().slot(), " sent ", scores, " scores and ", bytes.size(),
      " bytes of labels for ", share.examples(), " examples; send one of each for each"));
}

bool IsArea(absl::string_view metric) { return metric == "auc" || metric == "binned_auc"; }

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
    return ShareError(share, absl::StrCat("it sent ", share.scores().size(),
                                          " bytes of scores, which is no multiple of 4"));
  }
  for (const auto& check : {CheckErrors, CheckConfusion}) {
    if (absl::Status status = check(share); !status.ok()) {
      return ShareError(share, status.message());
    }
  }
  if (!shares_.empty()) {
    const absl::Status same = CheckSameClasses(shares_.begin()->second, share);
    if (!same.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("evaluation at clock ", share.clock(), ": ", same.message()));
    }
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
      return absl::InvalidArgumentError(absl::StrCat(
          "slot ", slot, " sent ", share.positive_bins_size(), " and ", share.negative_bins_size(),
          " bins, others ", positive.size(), " and ", negative.size()));
    }
    for (size_t i = 0; i < positive.size(); ++i) positive[i] += share.positive_bins(i);
    for (size_t i = 0; i < negative.size(); ++i) negative[i] += share.negative_bins(i);
  }
  return BinnedAuc(positive, negative);
}

absl::StatusOr<double> EvaluationGatherer::Area() const {
  const v1::ReportEvaluationRequest& first = shares_.begin()->second;
  const bool binned =
      first.metric() == "binned_auc" || (first.metric() != "auc" && first.positive_bins_size() > 0);
  return binned ? BinnedAucOfAll() : Auc();
}

EvaluationSums EvaluationGatherer::Sums() const {
  EvaluationSums sums;
  for (const auto& [slot, share] : shares_) {
    sums.loss_sum += share.loss_sum();
    sums.correct += share.correct();
    sums.examples += share.examples();
    const uint64_t weight = share.loss_weight() > 0 ? share.loss_weight() : share.examples();
    sums.labels += weight;
    sums.text_bytes += share.text_bytes() > 0 ? share.text_bytes() : static_cast<double>(weight);
    sums.regression.squared_errors += share.errors().squared_errors();
    sums.regression.absolute_errors += share.errors().absolute_errors();
    sums.regression.deviations += share.errors().deviations();
    sums.regression.squared_deviations += share.errors().squared_deviations();
  }
  return sums;
}

absl::StatusOr<v1::EvaluationResult> EvaluationGatherer::Result() const {
  const EvaluationSums sums = Sums();
  const v1::ReportEvaluationRequest& first = shares_.begin()->second;
  v1::EvaluationResult result;
  result.set_clock(clock());
  result.set_metric(first.metric());
  result.set_examples(sums.examples);
  absl::StatusOr<double> area = absl::FailedPreconditionError("not asked for");
  if (IsArea(first.metric()) || first.confusion().classes() == 2) area = Area();
  const absl::StatusOr<double> value =
      IsArea(first.metric()) ? area : MetricFromSums(first.metric(), sums);
  // A figure that these examples do not have is no error.
  for (const absl::Status& status : {value.status(), area.status()}) {
    if (status.ok() || absl::IsFailedPrecondition(status)) continue;
    return absl::Status(status.code(),
                        absl::StrCat("evaluation at clock ", clock(), ": ", status.message()));
  }
  if (value.ok()) {
    result.set_value(*value);
  } else {
    result.set_no_value(std::string(value.status().message()));
  }
  if (first.has_confusion()) {
    for (const auto& [slot, share] : shares_) {
      AddConfusion(share.confusion(), *result.mutable_confusion());
    }
    if (area.ok()) result.set_auc(*area);
  }
  const absl::StatusOr<double> loss = MetricFromSums("loss", sums);
  if (loss.ok()) result.set_loss(*loss);
  return result;
}

}  // namespace muster
