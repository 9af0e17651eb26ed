#include "worker/data/sampling/learned_from.h"

#include "common/base/status_macros.h"
#include "worker/data/sampling/example_order.h"
#include "worker/data/sampling/split.h"

namespace muster {

absl::StatusOr<std::vector<bool>> LearnedFrom(int64_t examples, double holdout,
                                              absl::optional<uint64_t> shuffle_seed) {
  MUSTER_ASSIGN_OR_RETURN(const Split split, SplitExamples(examples, holdout));
  const ExampleOrder order =
      shuffle_seed.has_value() ? ExampleOrder(*shuffle_seed, examples) : ExampleOrder();
  const int64_t learned_from = split.training > 0 ? split.training : split.held_out;
  std::vector<bool> learned(examples);
  for (int64_t position = 0; position < learned_from; ++position) learned[order(position)] = true;
  return learned;
}

}  // namespace muster
