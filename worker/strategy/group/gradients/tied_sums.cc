#include "worker/strategy/group/gradients/tied_sums.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/partition/memory_bounds.h"
#include "common/tensor/dtype.h"
#include "worker/strategy/group/exchange/array_calls.h"

namespace muster {
namespace {

constexpr size_t kMessage = kTiedMessageElements;

}  // namespace

absl::StatusOr<std::unique_ptr<TiedSums>> TiedSums::Create(Communicator& stages,
                                                           absl::Span<const TensorSpec> tensors,
                                                           absl::Duration timeout,
                                                           CallOrder* order) {
  for (const TensorSpec& tensor : tensors) {
    if (tensor.stages == 1) continue;
    if (tensor.stages == 2 && stages.size() == 2 && tensor.first_stage == (stages.rank() == 0)) {
      continue;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "tensor ", tensor.name, " is on ", tensor.stages, " stages, of which rank ", stages.rank(),
        " of ", stages.size(), " is one", tensor.first_stage ? ", with the tensor's own unit" : "",
        ": two stages may have a tensor, the first of them its own unit"));
  }
  return std::unique_ptr<TiedSums>(new TiedSums(stages, tensors, timeout, order));
}

TiedSums::TiedSums(Communicator& stages, absl::Span<const TensorSpec> tensors,
                   absl::Duration timeout, CallOrder* order)
    : stages_(stages), timeout_(timeout), order_(order) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].stages == 1 || tensors[i].frozen) continue;
    tied_.push_back({.tensor = static_cast<int>(i), .unit = static_cast<int>(tensors[i].unit)});
  }
}

TiedSums::~TiedSums() {
  if (sends_.empty()) return;
  stages_.Abort("a step was given up with gradients of both stages under way");
  AwaitSent().IgnoreError();
}

absl::Status TiedSums::SumOnBoth(absl::Span<const absl::Span<float>> sums) {
  if (order_ != nullptr) MUSTER_RETURN_IF_ERROR(order_->FollowComputation());
  for (const Tied& tied : tied_) {
    // Both stages have the same slice, which may be padding alone.
    if (sums[tied.tensor].empty()) continue;
    CollectiveCall add = Sum(sums[tied.tensor], timeout_, "gradients of both stages");
    if (order_ != nullptr) add.stream = order_->stream();
    MUSTER_RETURN_IF_ERROR(stages_.Run(add));
  }
  return absl::OkStatus();
}

absl::Status TiedSums::SumOnFirst(int unit, GradientSpans gradients) {
  for (const Tied& tied : tied_) {
    if (tied.unit != unit) continue;
    if (stages_.rank() > 0) {
      Send(gradients[tied.tensor]);
    } else {
      MUSTER_RETURN_IF_ERROR(Receive(gradients[tied.tensor]));
    }
  }
  return absl::OkStatus();
}

void TiedSums::Send(absl::Span<const float> gradient) {
  std::vector<CollectiveCall> messages;
  for (size_t begin = 0; begin < gradient.size(); begin += kMessage) {
    messages.push_back(ArrayCall<float>(Collective::kSend, gradient.subspan(begin, kMessage),
                                        /*out=*/nullptr, timeout_, "tied gradients"));
  }
  for (std::shared_ptr<Work>& work : stages_.StartMessages(messages)) {
    sends_.push_back(std::move(work));
  }
}

absl::Status TiedSums::Receive(absl::Span<float> gradient) {
  received_.resize(std::min(kMessage, gradient.size()));
  for (size_t begin = 0; begin < gradient.size(); begin += kMessage) {
    CollectiveCall receive;
    receive.kind = Collective::kReceive;
    receive.dtype = DType::kF32;
    receive.out = received_.data();
    receive.count = std::min(kMessage, gradient.size() - begin);
    receive.root = 1;
    receive.timeout = timeout_;
    receive.label = "tied gradients";
    MUSTER_RETURN_IF_ERROR(stages_.Run(receive));
    for (size_t i = 0; i < receive.count; ++i) gradient[begin + i] += received_[i];
  }
  return absl::OkStatus();
}

absl::Status TiedSums::AwaitSent() {
  absl::Status first;
  for (const std::shared_ptr<Work>& send : sends_) {
    first.Update(send->Wait(absl::InfiniteDuration()));
  }
  sends_.clear();
  return first;
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
