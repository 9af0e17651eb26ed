#include "worker/strategy/group/gradients/tied_sums.h"

#include <cstddef>

#include "common/base/status_macros.h"
#include "common/tensor/dtype.h"
#include "worker/strategy/group/exchange/array_calls.h"

namespace muster {

TiedSums::TiedSums(Communicator& stages, absl::Span<const TensorSpec> tensors,
                   absl::Duration timeout, CallOrder* order)
    : stages_(stages), timeout_(timeout), order_(order) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].stages > 1) tied_.push_back(static_cast<int>(i));
  }
}

absl::Status TiedSums::Add(absl::Span<const absl::Span<float>> sums) {
  if (order_ != nullptr) MUSTER_RETURN_IF_ERROR(order_->FollowComputation());
  for (const int tensor : tied_) {
    // Both stages have the same slice, which may be padding alone.
    if (sums[tensor].empty()) continue;
    CollectiveCall add = Sum(sums[tensor], timeout_, "gradients of both stages");
    if (order_ != nullptr) add.stream = order_->stream();
    MUSTER_RETURN_IF_ERROR(stages_.Run(add));
  }
  return absl::OkStatus();
}

absl::Status TiedSums::CopyWeights(ShardState& state) {
  const std::vector<TensorSpec>& tensors = state.tables().tensors;
  for (const ShardLayout::OwnedBlock& owned : state.owned_blocks()) {
    if (tensors[owned.block.pieces[0].tensor].stages == 1) continue;
    const absl::Span<float> weights =
        state.state().weights.subspan(owned.slice_begin, owned.block.elements());
    MUSTER_RETURN_IF_ERROR(
        stages_.Run(Broadcast(/*root=*/0, weights, timeout_, "weights of both stages")));
  }
  return absl::OkStatus();
}

}  // namespace muster
