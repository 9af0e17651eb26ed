#include "worker/strategy/group/gradients/tied_gradients.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tensor/dtype.h"
#include "worker/strategy/group/exchange/array_calls.h"

namespace muster {
namespace {

// Elements of a message: so many are added while the next ones are on their way.
constexpr size_t kMessage = size_t{1} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<TiedGradients>> TiedGradients::Create(
    Communicator& stages, absl::Span<const TensorSpec> tensors, absl::Duration timeout) {
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
  return std::unique_ptr<TiedGradients>(new TiedGradients(stages, tensors, timeout));
}

TiedGradients::TiedGradients(Communicator& stages, absl::Span<const TensorSpec> tensors,
                             absl::Duration timeout)
    : stages_(stages), timeout_(timeout) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].stages == 1) continue;
    const size_t unit = tensors[i].unit;
    tensors_.resize(std::max(tensors_.size(), unit + 1));
    tensors_[unit].push_back(static_cast<int>(i));
  }
}

TiedGradients::~TiedGradients() {
  if (sends_.empty()) return;
  stages_.Abort("a step was given up with gradients of both stages under way");
  Finish().IgnoreError();
}

absl::Status TiedGradients::Add(int unit, GradientSpans gradients) {
  if (unit >= static_cast<int>(tensors_.size())) return absl::OkStatus();
  for (const int tensor : tensors_[unit]) {
    if (stages_.rank() > 0) {
      Send(gradients[tensor]);
    } else {
      MUSTER_RETURN_IF_ERROR(Receive(gradients[tensor]));
    }
  }
  return absl::OkStatus();
}

void TiedGradients::Send(absl::Span<const float> gradient) {
  std::vector<CollectiveCall> messages;
  for (size_t begin = 0; begin < gradient.size(); begin += kMessage) {
    messages.push_back(ArrayCall<float>(Collective::kSend, gradient.subspan(begin, kMessage),
                                        /*out=*/nullptr, timeout_, "tied gradients"));
  }
  for (std::shared_ptr<Work>& work : stages_.StartMessages(messages)) {
    sends_.push_back(std::move(work));
  }
}

absl::Status TiedGradients::Receive(absl::Span<float> gradient) {
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

absl::Status TiedGradients::Finish() {
  absl::Status first;
  for (const std::shared_ptr<Work>& send : sends_) {
    first.Update(send->Wait(absl::InfiniteDuration()));
  }
  sends_.clear();
  return first;
}

}  // namespace muster
