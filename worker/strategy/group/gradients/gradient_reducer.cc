#include "worker/strategy/group/gradients/gradient_reducer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tensor/half.h"

namespace muster {
namespace {

template <typename T>
absl::Span<T> SpanOf(CollectiveBuffer& buffer, size_t elements) {
  return {reinterpret_cast<T*>(buffer.bytes().data()), elements};
}

}  // namespace

GradientReducer::GradientReducer(Communicator& communicator,
                                 const std::vector<GradientBucket>& plan,
                                 const GradientReducerOptions& options)
    : communicator_(communicator), options_(options), gradients_(options.gradients) {
  for (size_t i = 0; i < plan.size(); ++i) {
    calls_.push_back({.bucket = plan[i], .label = absl::StrCat("bucket ", i)});
  }
}

absl::StatusOr<std::unique_ptr<GradientReducer>> GradientReducer::Create(
    Communicator& communicator, std::vector<GradientBucket> plan, uint64_t elements,
    const GradientReducerOptions& options) {
  std::unique_ptr<GradientReducer> reducer(new GradientReducer(communicator, plan, options));
  // A model of sparse tables alone has nothing to reduce.
  if (elements == 0) return reducer;
  if (options.gradients.empty()) {
    MUSTER_ASSIGN_OR_RETURN(reducer->memory_, communicator.Allocate(elements * sizeof(float)));
    reducer->gradients_ = SpanOf<float>(*reducer->memory_, elements);
  }
  if (options.wire == DType::kBf16) {
    uint64_t sent = 0;
    for (const Call& call : reducer->calls_) sent += call.bucket.elements();
    MUSTER_ASSIGN_OR_RETURN(reducer->wire_memory_, communicator.Allocate(sent * sizeof(uint16_t)));
    absl::Span<uint16_t> rest = SpanOf<uint16_t>(*reducer->wire_memory_, sent);
    for (Call& call : reducer->calls_) {
      call.wire = rest.first(call.bucket.elements());
      rest.remove_prefix(call.wire.size());
    }
  }
  return reducer;
}

GradientReducer::~GradientReducer() {
  if (next_ == 0) return;
  Abort("a step was given up with buckets of gradients under way");
  for (Call& call : calls_) {
    if (call.work != nullptr) call.work->Wait(absl::InfiniteDuration()).IgnoreError();
  }
}

void GradientReducer::Abort(const std::string& reason) {
  communicator_.Abort(reason);
  if (options_.experts != nullptr) options_.experts->Abort(reason);
}

void GradientReducer::Start(Call& call) {
  Communicator* const group = call.bucket.experts ? options_.experts : &communicator_;
  if (group == nullptr) return;
  CollectiveCall all_reduce;
  all_reduce.kind = Collective::kAllReduce;
  all_reduce.reduction = Reduction::kSum;
  all_reduce.dtype = options_.wire;
  all_reduce.count = call.bucket.elements();
  all_reduce.deterministic = options_.deterministic;
  all_reduce.timeout = options_.timeout;
  all_reduce.label = call.label;
  if (options_.order != nullptr) all_reduce.stream = options_.order->stream();
  void* data = gradients_.data() + call.bucket.begin;
  if (options_.wire == DType::kBf16) {
    RoundToHalf(options_.wire, gradients_.subspan(call.bucket.begin, call.bucket.elements()),
                call.wire.data());
    data = call.wire.data();
  }
  all_reduce.in = data;
  all_reduce.out = data;
  call.work = group->Start(all_reduce);
}

void GradientReducer::UnitReady(int unit) {
  if (next_ == calls_.size() || calls_[next_].bucket.ready_unit < unit) return;
  if (options_.order != nullptr) failure_.Update(options_.order->FollowComputation());
  if (!failure_.ok()) return;
  for (; next_ < calls_.size() && calls_[next_].bucket.ready_unit >= unit; ++next_) {
    Start(calls_[next_]);
  }
}

absl::Status GradientReducer::Finish() {
  UnitReady(0);
  absl::Status result = std::exchange(failure_, absl::OkStatus());
  for (Call& call : calls_) {
    if (call.work == nullptr) continue;
    const absl::Status status = options_.wait(*call.work);
    call.work = nullptr;
    if (result.ok()) result = status;
    if (!result.ok() || options_.wire != DType::kBf16) continue;
    WidenHalf(options_.wire, reinterpret_cast<const std::byte*>(call.wire.data()),
              gradients_.subspan(call.bucket.begin, call.bucket.elements()));
  }
  next_ = 0;
  return result;
}

}  // namespace muster
