#include "worker/parallel/communicator_expert_group.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "worker/collectives/collective_call.h"

namespace muster {

CommunicatorExpertGroup::~CommunicatorExpertGroup() {
  if (under_way_.empty()) return;
  communicator_.Abort("a pass over experts of other ranks was given up");
  for (const std::shared_ptr<Work>& work : under_way_) {
    work->Wait(absl::InfiniteDuration()).IgnoreError();
  }
}

void CommunicatorExpertGroup::GatherCounts(absl::Span<const int32_t> mine,
                                           absl::Span<int32_t> all) {
  if (!status_.ok()) return;
  CollectiveCall call;
  call.kind = Collective::kAllGather;
  call.dtype = DType::kInt32;
  call.count = mine.size();
  call.in = mine.data();
  call.out = all.data();
  call.timeout = timeout_;
  call.label = "rows by expert";
  status_ = wait_(*communicator_.Start(call));
}

void CommunicatorExpertGroup::Start(absl::Span<const Sent> sent,
                                    absl::Span<const Received> received) {
  if (!status_.ok()) return;
  std::vector<CollectiveCall> messages;
  CollectiveCall call;
  call.timeout = timeout_;
  const auto add = [&](int peer, DType type, int64_t elements) {
    call.root = peer;
    call.dtype = type;
    call.count = static_cast<size_t>(elements);
    messages.push_back(call);
  };
  // The messages of this rank to itself, in order.
  std::vector<const Sent*> own;
  call.kind = Collective::kSend;
  call.label = "to expert rank";
  for (const Sent& one : sent) {
    if (one.elements == 0) continue;
    call.in = one.from;
    if (one.peer == rank()) {
      own.push_back(&one);
    } else {
      add(one.peer, one.type, one.elements);
    }
  }
  call.kind = Collective::kReceive;
  call.label = "from expert rank";
  call.in = nullptr;
  size_t next = 0;
  for (const Received& one : received) {
    if (one.elements == 0) continue;
    call.out = one.to;
    if (one.peer == rank()) {
      std::memcpy(one.to, own[next++]->from, one.elements * SizeOf(one.type));
    } else {
      add(one.peer, one.type, one.elements);
    }
  }
  if (!messages.empty()) under_way_ = communicator_.StartMessages(messages);
}

void CommunicatorExpertGroup::Await() {
  for (const std::shared_ptr<Work>& work : std::exchange(under_way_, {})) {
    const absl::Status ended = wait_(*work);
    if (status_.ok()) status_ = ended;
  }
}

}  // namespace muster
