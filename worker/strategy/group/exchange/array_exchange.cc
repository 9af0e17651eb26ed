#include "worker/strategy/group/exchange/array_exchange.h"

#include "worker/strategy/group/exchange/array_calls.h"

namespace muster {

std::shared_ptr<Work> ArrayExchange::StartNumbers(const std::vector<int64_t>& sent,
                                                  std::vector<int64_t>& received,
                                                  absl::string_view label) const {
  received.resize(sent.size());
  CollectiveCall call =
      ArrayCall<int64_t>(Collective::kAllToAll, sent, received.data(), timeout, label);
  call.count /= communicator.size();
  return communicator.Start(call);
}

absl::Status ArrayExchange::Run(DType type, const void* sent, absl::Span<const size_t> send_counts,
                                void* received, absl::Span<const size_t> counts,
                                absl::string_view label) const {
  CollectiveCall call;
  call.kind = Collective::kAllToAll;
  call.dtype = type;
  call.in = sent;
  call.out = received;
  call.send_counts = send_counts;
  call.counts = counts;
  call.timeout = timeout;
  call.label = label;
  return wait(*communicator.Start(call));
}

}  // namespace muster
