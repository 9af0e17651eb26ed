#ifndef MUSTER_WORKER_STRATEGY_GLOBAL_NORM_H_
#define MUSTER_WORKER_STRATEGY_GLOBAL_NORM_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/partition/dense_layout.h"

namespace muster {

// The clipping of one step by its gradient's norm over all parameters.
struct NormClipping {
  // The norm of the mean gradient before clipping; absent: not measured, or there were no examples.
  absl::optional<double> norm;
  // The factor by which gradients are scaled.
  double scale = 1;
};

// Returns the factor min(1, max_norm / norm) that brings a gradient of this squared norm down to
// `max_norm` (Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural networks",
// 2013, section 3.2). OutOfRange: the norm is not finite.
absl::StatusOr<NormClipping> ClipBySquaredNorm(double squared, double max_norm);

// Does the same with the norm as partitions report it. `partition_norms[p]` holds squared norms as
// partition p reports them: one per dense block, in order, then one per sparse table. They are
// added in one order, whichever servers hold the partitions: dense blocks by their id in the
// layout, then sparse tables, each over its partitions. OutOfRange: the norm is not finite.
// Internal: a partition reported another number of norms than it has blocks and tables.
absl::StatusOr<NormClipping> ClipByNorm(const DenseLayout& layout, size_t sparse_tables,
                                        absl::Span<const std::vector<double>> partition_norms,
                                        double max_norm);

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GLOBAL_NORM_H_
