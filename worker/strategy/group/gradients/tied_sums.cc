#include "worker/strategy/group/gradients/tied_sums.h"

#include <cstddef>

#include "common/base/status_macros.h"
#include "common/tensor/dtype.h"

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
    CollectiveCall add;
    add.kind = Collective::kAllReduce;
    add.dtype = DType::kF32;
    add.in = add.out = sums[tensor].data();
    add.count = sums[tensor].size();
    add.timeout = timeout_;
    add.label = "gradients of both stages";
    if (order_ != nullptr) add.stream = order_->stream();
    MUSTER_RETURN_IF_ERROR(stages_.Run(add));
  }
  return absl::OkStatus();
}

absl::Status TiedSums::CopyWeights(ShardState& state) {
  const std::vector<TensorSpec>& tensors = state.tables().tensors;
  for (const ShardLayout::OwnedBlock& owned : state.owned_blocks()) {
    if (tensors[owned.block.pieces[0].tensor].stages == 1) continue;
    CollectiveCall copy;
    copy.kind = Collective::kBroadcast;
    copy.dtype = DType::kF32;
    copy.in = copy.out = state.state().weights.data() + owned.slice_begin;
    copy.count = owned.block.elements();
    copy.timeout = timeout_;
    copy.label = "weights of both stages";
    MUSTER_RETURN_IF_ERROR(stages_.Run(copy));
  }
  return absl::OkStatus();
}

}  // namespace muster
