#include "worker/strategy/group/host_shard.h"

#include "common/base/status_macros.h"
#include "common/kernels/gemm/row_sums.h"

namespace muster {

size_t HostShard::cells(int shard) const {
  const bool others = state().shard().mesh.world_size() > 1;
  return norms_ == Norms::kMeasured && others ? state().cells_by_shard()[shard] : 0;
}

int HostShard::Unscale(GradientSpans sums, Check check) {
  const std::vector<TensorSpec>& tensors = state().tables().tensors;
  const TensorSpec* const overflowed = kept_.loss_scaling().Divide(tensors, sums);
  if (overflowed != nullptr) return static_cast<int>(overflowed - tensors.data());
  if (check == Check::kSeen) return -1;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!AllFinite(static_cast<int64_t>(sums[i].size()), sums[i].data())) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

absl::StatusOr<absl::Span<const double>> HostShard::Measure(const GradientSums& sums,
                                                            size_t cells) {
  cells_.clear();
  if (cells > 0) cells_ = state().CellNorms(sums.dense, sums.rows);
  return cells_;
}

absl::Status HostShard::Decide(const GradientSums& sums, StepOutcome& outcome) {
  MUSTER_ASSIGN_OR_RETURN(const NormClipping clipping, state().Clipping(sums));
  outcome.norm = clipping.norm;
  outcome.scale = clipping.scale;
  return absl::OkStatus();
}

void HostShard::Apply(const GradientSums& sums, const StepOutcome& outcome) {
  if (outcome.overflowed >= 0) {
    state().set_clock(outcome.clock + 1);
  } else {
    state().Apply(sums, outcome.scale, outcome.rate_factor);
  }
}

}  // namespace muster
