#ifndef MUSTER_TESTS_GOLDEN_GOLDEN_RECORD_H_
#define MUSTER_TESTS_GOLDEN_GOLDEN_RECORD_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

// The bits of one job's training, as a fixture keeps them: fingerprints of everything, and enough
// values to tell a rounding from a bug.

// f32 values of one array: all of them as fingerprint, some as they are.
struct GoldenValues {
  uint64_t fingerprint = 0;
  // At evenly spaced elements, the first and the last among them.
  std::vector<float> samples;

  static GoldenValues Of(absl::Span<const float> values);
};

struct GoldenTensor {
  std::string name;
  std::vector<int64_t> shape;
  // At the end of the training.
  GoldenValues trained;
  // Slot 0's sum of gradients in the first step; empty for tables of rows and tied tensors.
  GoldenValues first_gradient;
};

struct GoldenStep {
  uint64_t step = 0;  // from 1
  uint32_t slot = 0;
  double loss_sum = 0;
  // By tensor, in the order of GoldenRecord::tensors: the low half of the fingerprint of the slot's
  // sum of gradients; 0 where there is none.
  std::vector<uint32_t> gradients;
};

struct GoldenRecord {
  // In order of step, then slot.
  std::vector<GoldenStep> steps;
  std::vector<GoldenTensor> tensors;
  // Mean held-out loss by the clock of the evaluation.
  std::map<uint64_t, double> evaluations;
  // The tokens that the trained model writes when the likeliest token always comes next, and all
  // logits on the way; nothing where the model writes no text.
  std::vector<int32_t> generated;
  GoldenValues logits;
};

// Lines of text, the last one ended. Every value is written to the bit.
std::string FormatGoldenRecord(const GoldenRecord& record);

// InvalidArgument: a line is none of FormatGoldenRecord's (names it).
absl::StatusOr<GoldenRecord> ParseGoldenRecord(absl::string_view text);

// Returns the differences, in the order in which training comes to it, the first first; empty: no
// bit.
std::vector<std::string> DescribeDifferences(const GoldenRecord& actual,
                                             const GoldenRecord& expected);

}  // namespace muster

#endif  // MUSTER_TESTS_GOLDEN_GOLDEN_RECORD_H_
