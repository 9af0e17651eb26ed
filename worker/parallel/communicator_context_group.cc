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

CollectiveCall CommunicatorContextGroup::CallOf(Collective kind, DType type, int64_t elements,
                                                const char* label) const {
  CollectiveCall call;
  call.kind = kind;
  call.dtype = type;
  call.count = static_cast<size_t>(elements);
  call.timeout = timeout_;
  call.label = label;
  return call;
}

void CommunicatorContextGroup::StartToPass(DType type, int64_t elements, const void* mine,
                                           void* theirs) {
  if (!status_.ok()) return;
  CollectiveCall send = CallOf(Collective::kSend, type, elements, "to next context rank");
  send.in = mine;
  send.root = (rank() + 1) % size();
  CollectiveCall receive = CallOf(Collective::kReceive, type, elements, "from context rank");
  receive.out = theirs;
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
  CollectiveCall call = CallOf(Collective::kAllGather, type, elements, "keys and values");
  call.in = mine;
  call.out = all;
  Run(call);
}

void CommunicatorContextGroup::ScatterSums(DType type, int64_t elements, void* all, void* mine) {
  CollectiveCall call = CallOf(Collective::kReduceScatter, type, elements, "gradients of keys");
  call.in = all;
  call.out = mine;
  Run(call);
}

void CommunicatorContextGroup::Exchange(DType type, int64_t elements, const void* in, void* out) {
  CollectiveCall call = CallOf(Collective::kAllToAll, type, elements, "context rank's heads");
  call.in = in;
  call.out = out;
  Run(call);
}

void CommunicatorContextGroup::Sum(DType type, int64_t elements, void* values) {
  CollectiveCall call = CallOf(Collective::kAllReduce, type, elements, "sum over context ranks");
  call.in = values;
  call.out = values;
  Run(call);
}

}  // namespace muster
