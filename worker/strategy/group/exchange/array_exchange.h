#ifndef MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_ARRAY_EXCHANGE_H_
#define MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_ARRAY_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/work.h"
#include "common/tensor/dtype.h"
#include "worker/collectives/communicator.h"
#include "worker/strategy/blocked_time.h"

namespace muster {

// All-to-alls in which a rank sends each rank of the group, itself included, another number of
// elements. No rank knows how many come. So the ranks exchange numbers first, as many for each
// rank, and then arrays whose lengths follow from these: what goes to rank 0 lies first, then what
// goes to rank 1, and so on, and what comes is received in order of rank.
//
// All calls are collective, and come in the same order on all ranks. Errors are the communicator's.
struct ArrayExchange {
  Communicator& communicator;
  // The timeout of each call, in which ranks may have to wait for slower ones.
  absl::Duration timeout;
  // Waits for the calls.
  WaitForWork wait = WaitForever;

  // Starts to exchange numbers, [ranks, n]. Both must stay until the call has ended.
  std::shared_ptr<Work> StartNumbers(const std::vector<int64_t>& sent,
                                     std::vector<int64_t>& received, absl::string_view label) const;
  // Does the same, and waits for the end.
  absl::Status Numbers(const std::vector<int64_t>& sent, std::vector<int64_t>& received,
                       absl::string_view label) const {
    return wait(*StartNumbers(sent, received, label));
  }

  // Exchanges arrays. The counts are elements by rank; `received` gets as many as come.
  template <typename T>
  absl::Status Arrays(const std::vector<T>& sent, absl::Span<const size_t> send_counts,
                      std::vector<T>& received, absl::Span<const size_t> counts,
                      absl::string_view label) const {
    received.resize(std::accumulate(counts.begin(), counts.end(), size_t{0}));
    return Run(TypeOf(T()), sent.data(), send_counts, received.data(), counts, label);
  }

 private:
  static DType TypeOf(std::byte) { return DType::kUint8; }
  static DType TypeOf(uint64_t) { return DType::kInt64; }
  static DType TypeOf(float) { return DType::kF32; }

  absl::Status Run(DType type, const void* sent, absl::Span<const size_t> send_counts,
                   void* received, absl::Span<const size_t> counts, absl::string_view label) const;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_ARRAY_EXCHANGE_H_
