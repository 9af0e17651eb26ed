#include "worker/parallel/communicator_context_group.h"

#include "absl/time/time.h"
#include "worker/collectives/collective_call.h"

namespace muster {

CommunicatorContextGroup::~CommunicatorContextGroup() {
  if (under_way_.empty()) return;
  communicator_.Abort("a pass over shares of sequences was given up");
  for (const Passing& passing : under_way_) {
    for (const std::shared_ptr<Work>& work : passing)
      work->Wait(absl::InfiniteDuration()).IgnoreError();
  }
}

CollectiveCall CommunicatorContextGroup::CallOf(Collective kind, const char* label, DType type,
                                                int64_t elements, const void* in, void* out) const {
  CollectiveCall call;
  call.kind = kind;
  call.dtype = type;
  call.count = static_cast<size_t>(elements);
  call.in = in;
  call.out = out;
  call.timeout = timeout_;
  call.label = label;
  return call;
}

void CommunicatorContextGroup::StartToPass(DType type, int64_t elements, const void* mine,
                                           void* theirs) {
  if (!status_.ok()) return;
  CollectiveCall send =
      CallOf(Collective::kSend, "to next context rank", type, elements, mine, nullptr);
  send.root = (rank() + 1) % size();
  CollectiveCall receive =
      CallOf(Collective::kReceive, "from context rank", type, elements, nullptr, theirs);
  receive.root = (rank() + size() - 1) % size();
  under_way_.push_back(start_(communicator_, {send, receive}));
}

void CommunicatorContextGroup::AwaitPassed() {
  if (under_way_.empty()) return;
  const Passing passing = std::move(under_way_.front());
  under_way_.pop_front();
  Await(passing);
}

void CommunicatorContextGroup::Await(const Passing& passing) {
  for (const std::shared_ptr<Work>& work : passing) {
    const absl::Status ended = wait_(*work);
    if (status_.ok()) status_ = ended;
  }
}

void CommunicatorContextGroup::Run(const CollectiveCall& call) {
  if (status_.ok()) Await(start_(communicator_, {call}));
}

void CommunicatorContextGroup::Gather(DType type, int64_t elements, const void* mine, void* all) {
  Run(CallOf(Collective::kAllGather, "keys and values", type, elements, mine, all));
}

void CommunicatorContextGroup::ScatterSums(DType type, int64_t elements, void* all, void* mine) {
  Run(CallOf(Collective::kReduceScatter, "gradients of keys", type, elements, all, mine));
}

void CommunicatorContextGroup::Exchange(DType type, int64_t elements, const void* in, void* out) {
  Run(CallOf(Collective::kAllToAll, "context rank's heads", type, elements, in, out));
}

void CommunicatorContextGroup::Sum(DType type, int64_t elements, void* values) {
  Run(CallOf(Collective::kAllReduce, "sum over context ranks", type, elements, values, values));
}

}  // namespace muster
