#include "worker/parallel/communicator_expert_group.h"

#include <cstddef>
#include <cstdint>
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

void CommunicatorExpertGroup::Exchange(std::function<void()> exchange) {
  options_.exchange([this, exchange = std::move(exchange)] {
    if (status_.ok()) exchange();
  });
}

void CommunicatorExpertGroup::Gather(int64_t numbers, const int32_t* mine, int32_t* all,
                                     int32_t* on_host) {
  if (!status_.ok()) return;
  CollectiveCall call;
  call.kind = Collective::kAllGather;
  call.dtype = DType::kInt32;
  call.count = static_cast<size_t>(numbers);
  call.in = mine;
  call.out = all;
  call.timeout = options_.timeout;
  call.label = "rows by expert";
  under_way_ = options_.start(communicator_, {&call, 1});
  Await();
  if (!status_.ok()) return;
  status_ = options_.read(all, numbers * size() * sizeof(int32_t), on_host);
}

void CommunicatorExpertGroup::Start(absl::Span<const Sent> sent,
                                    absl::Span<const Received> received) {
  if (!status_.ok()) return;
  std::vector<CollectiveCall> messages;
  CollectiveCall call;
  call.timeout = options_.timeout;
  const auto add = [&](int peer, DType type, int64_t elements) {
    if (elements == 0) return;
    call.root = peer;
    call.dtype = type;
    call.count = static_cast<size_t>(elements);
    messages.push_back(call);
  };
  call.kind = Collective::kSend;
  call.label = "to expert rank";
  for (const Sent& one : sent) {
    call.in = one.from;
    add(one.peer, one.type, one.elements);
  }
  call.kind = Collective::kReceive;
  call.label = "from expert rank";
  call.in = nullptr;
  for (const Received& one : received) {
    call.out = one.to;
    add(one.peer, one.type, one.elements);
  }
  if (!messages.empty()) under_way_ = options_.start(communicator_, messages);
}

void CommunicatorExpertGroup::Await() {
  for (const std::shared_ptr<Work>& work : std::exchange(under_way_, {})) {
    const absl::Status ended = options_.wait(*work);
    if (status_.ok()) status_ = ended;
  }
}

}  // namespace muster
