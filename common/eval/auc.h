#ifndef MUSTER_COMMON_EVAL_AUC_H_
#define MUSTER_COMMON_EVAL_AUC_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace muster {

// The area under the ROC curve is the probability that a positive example scores higher than a
// negative one, a tie counting half. This is the Mann-Whitney statistic with mid-ranks, (sum over
// positives of the negatives below, plus half of the negatives with an equal score) / (positives ×
// negatives). 0.5 is guessing, 1 a perfect order.

// Returns the exact area. Sorts a copy of the scores: 8 bytes of memory and O(log n) time per
// example. The result does not depend on the order of examples. Example i has the score scores[i]
// and the label labels[i]. InvalidArgument: the lengths differ, a label is neither 0 nor 1, or a
// score is NaN. FailedPrecondition: all examples are of one class, so there is no area; the message
// says which class.
absl::StatusOr<double> ExactAuc(absl::Span<const float> scores, absl::Span<const uint8_t> labels);

// Numbers of examples of each class per bin; bins have equal width over the probabilities [0, 1].
// Counts of different examples add up, so tasks can exchange them at a fixed cost.
struct ScoreBins {
  static constexpr int kDefaultBins = 4096;

  explicit ScoreBins(int bins = kDefaultBins) : positive(bins), negative(bins) {}

  std::vector<uint64_t> positive;
  std::vector<uint64_t> negative;
};

// Counts examples into bins. InvalidArgument, with `bins` unchanged: the lengths differ, a label is
// neither 0 nor 1, or a score is not a probability.
absl::Status AddToBins(absl::Span<const float> scores, absl::Span<const uint8_t> labels,
                       ScoreBins& bins);

// Returns the area by bins. Examples of one bin count as ties, so the result differs from the exact
// area by at most half of the share of (positive, negative) pairs that fall into one bin.
// InvalidArgument: the lengths differ. FailedPrecondition: all examples are of one class.
absl::StatusOr<double> BinnedAuc(absl::Span<const uint64_t> positive,
                                 absl::Span<const uint64_t> negative);

}  // namespace muster

#endif  // MUSTER_COMMON_EVAL_AUC_H_
