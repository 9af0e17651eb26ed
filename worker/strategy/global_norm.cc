#include "worker/strategy/global_norm.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "worker/nn/diverged_error.h"

namespace muster {

absl::StatusOr<NormClipping> ClipBySquaredNorm(double squared, double max_norm) {
  const double norm = std::sqrt(squared);
  if (!std::isfinite(norm)) {
    return DivergedError(absl::StrCat("the gradient's norm is ", norm));
  }
  return NormClipping{.norm = norm, .scale = norm > max_norm ? max_norm / norm : 1.0};
}

absl::StatusOr<NormClipping> ClipByNorm(const DenseLayout& layout, size_t sparse_tables,
                                        absl::Span<const std::vector<double>> partition_norms,
                                        double max_norm) {
  for (uint32_t p = 0; p < layout.partitions(); ++p) {
    const size_t due = layout.partition_blocks(p).size() + sparse_tables;
    if (partition_norms[p].size() != due) {
      return absl::InternalError(absl::StrCat("partition ", p, " reported ",
                                              partition_norms[p].size(), " norms where ", due,
                                              " are due"));
    }
  }
  double squared = 0;
  for (const DenseLayout::Block& block : layout.blocks()) {
    squared += partition_norms[block.partition][block.index_in_partition];
  }
  for (size_t table = 0; table < sparse_tables; ++table) {
    for (uint32_t p = 0; p < layout.partitions(); ++p) {
      squared += partition_norms[p][layout.partition_blocks(p).size() + table];
    }
  }
  return ClipBySquaredNorm(squared, max_norm);
}

}  // namespace muster
