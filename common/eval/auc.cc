#include "common/eval/auc.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

// Order-preserving image of a float that is not NaN; both zeros have the same one.
uint32_t OrderedBits(float score) {
  if (score == 0) score = 0;
  uint32_t bits;
  std::memcpy(&bits, &score, sizeof(bits));
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

absl::Status CheckLabels(absl::Span<const float> scores, absl::Span<const uint8_t> labels) {
  if (scores.size() != labels.size()) {
    return absl::InvalidArgumentError(absl::StrCat("AUC of ", scores.size(), " scores and ",
                                                   labels.size(),
                                                   " labels: there must be one label per score."));
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("AUC: the label of example ", i, " is ", labels[i],
                       "; it is defined for two classes, 0 and 1, only."));
    }
  }
  return absl::OkStatus();
}

// Walks the scores upwards in groups of equal score.
class RankSum {
 public:
  void AddGroup(uint64_t positives, uint64_t negatives) {
    twice_ordered_pairs_ +=
        static_cast<unsigned __int128>(positives) * (2 * negatives_ + negatives);
    positives_ += positives;
    negatives_ += negatives;
  }

  absl::StatusOr<double> Area() const {
    if (positives_ == 0 || negatives_ == 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "AUC is undefined for ", positives_, " positive and ", negatives_,
          " negative examples: it needs both classes; evaluate on data that has both (a file that "
          "is sorted by label has one at its end), or use the metric loss"));
    }
    return static_cast<double>(twice_ordered_pairs_) /
           (2.0 * static_cast<double>(positives_) * static_cast<double>(negatives_));
  }

 private:
  unsigned __int128 twice_ordered_pairs_ = 0;
  uint64_t positives_ = 0;
  uint64_t negatives_ = 0;
};

}  // namespace

absl::StatusOr<double> ExactAuc(absl::Span<const float> scores, absl::Span<const uint8_t> labels) {
  if (absl::Status status = CheckLabels(scores, labels); !status.ok()) return status;
  // Score and label in one word, so that the sort moves 8 bytes.
  std::vector<uint64_t> examples(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat("AUC: the score of example ", i,
                       " is NaN; the model has diverged, lower the learning rate."));
    }
    examples[i] = static_cast<uint64_t>(OrderedBits(scores[i])) << 1 | labels[i];
  }
  std::sort(examples.begin(), examples.end());
  RankSum sum;
  for (size_t i = 0; i < examples.size();) {
    const uint64_t score = examples[i] >> 1;
    uint64_t counts[2] = {0, 0};
    for (; i < examples.size() && examples[i] >> 1 == score; ++i) ++counts[examples[i] & 1];
    sum.AddGroup(counts[1], counts[0]);
  }
  return sum.Area();
}

absl::Status AddToBins(absl::Span<const float> scores, absl::Span<const uint8_t> labels,
                       ScoreBins& bins) {
  if (absl::Status status = CheckLabels(scores, labels); !status.ok()) return status;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!(scores[i] >= 0 && scores[i] <= 1)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Binned AUC: the score of example ", i, " is ", scores[i],
          ", which is no probability; the model has diverged, lower the learning rate."));
    }
  }
  const int last = static_cast<int>(bins.positive.size()) - 1;
  for (size_t i = 0; i < scores.size(); ++i) {
    const int bin = std::min(static_cast<int>(scores[i] * (last + 1)), last);
    ++(labels[i] != 0 ? bins.positive : bins.negative)[bin];
  }
  return absl::OkStatus();
}

absl::StatusOr<double> BinnedAuc(absl::Span<const uint64_t> positive,
                                 absl::Span<const uint64_t> negative) {
  if (positive.size() != negative.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Binned AUC of ", positive.size(), " positive and ", negative.size(),
                     " negative bins: both classes must be counted into the same bins."));
  }
  RankSum sum;
  for (size_t i = 0; i < positive.size(); ++i) sum.AddGroup(positive[i], negative[i]);
  return sum.Area();
}

}  // namespace muster
