#ifndef MUSTER_WORKER_GENERATE_SAMPLING_H_
#define MUSTER_WORKER_GENERATE_SAMPLING_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace muster {

// How the next token is chosen. The steps are taken in the order of the fields.
struct SamplingOptions {
  // Logits are divided by it: below 1 the likely become likelier, above 1 all become more alike. 0
  // takes the most likely token (of equally likely ones the first) and ignores the other fields.
  double temperature = 1;
  // Only so many of the most likely tokens are left; 0 leaves all.
  int64_t top_k = 0;
  // Of those, the fewest most likely that together have at least this probability are left
  // (Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020); 1 leaves all.
  double top_p = 1;
};

// InvalidArgument: a field is out of its range; names it, its value and the range.
absl::Status ValidateSampling(const SamplingOptions& options);

// A token drawn by softmax of the logits: a pure function, `uniform` in [0, 1) being the draw.
// InvalidArgument: a logit is not finite (names the token), or there is none. REQUIRES: valid
// options. Costs O(V), or O(V log V) with a top_p below 1 and no top_k.
absl::StatusOr<int32_t> SampleToken(absl::Span<const float> logits, const SamplingOptions& options,
                                    double uniform);

}  // namespace muster

#endif  // MUSTER_WORKER_GENERATE_SAMPLING_H_
