#ifndef MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_ARRAY_CALLS_H_
#define MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_ARRAY_CALLS_H_

#include <cstdint>
#include <type_traits>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/tensor/dtype.h"
#include "worker/collectives/collective_call.h"

namespace muster {

// The most usual collective calls, on arrays, and sums of traffic. What else a call has, its maker
// sets. Types that no call adds up travel as bytes.
template <typename T>
constexpr DType TypeInCalls() {
  static_assert(std::is_trivially_copyable_v<T>);
  if (std::is_same_v<T, float>) return DType::kF32;
  if (std::is_same_v<T, double>) return DType::kF64;
  if (std::is_same_v<T, int64_t> || std::is_same_v<T, uint64_t>) return DType::kInt64;
  return DType::kUint8;
}

template <typename T>
CollectiveCall ArrayCall(Collective kind, absl::Span<const T> in, T* out, absl::Duration timeout,
                         absl::string_view label) {
  CollectiveCall call;
  call.kind = kind;
  call.dtype = TypeInCalls<T>();
  call.in = in.data();
  call.out = out;
  call.count = call.dtype == DType::kUint8 ? in.size() * sizeof(T) : in.size();
  call.timeout = timeout;
  call.label = label;
  return call;
}

// Gives all ranks the arrays of all, in order of rank. These are equally long unless `counts` is
// set.
template <typename T>
CollectiveCall AllGather(absl::Span<const T> in, T* out, absl::Duration timeout,
                         absl::string_view label) {
  return ArrayCall(Collective::kAllGather, in, out, timeout, label);
}

// Makes all ranks' arrays their sum.
template <typename T>
CollectiveCall Sum(absl::Span<T> values, absl::Duration timeout, absl::string_view label) {
  return ArrayCall<T>(Collective::kAllReduce, values, values.data(), timeout, label);
}

// Makes all ranks' arrays that of rank `root`.
template <typename T>
CollectiveCall Broadcast(int root, absl::Span<T> values, absl::Duration timeout,
                         absl::string_view label) {
  CollectiveCall call = ArrayCall<T>(Collective::kBroadcast, values, values.data(), timeout, label);
  call.root = root;
  return call;
}

// Returns the traffic since `before`.
inline CollectiveTraffic Since(const CollectiveTraffic& before, const CollectiveTraffic& now) {
  return {now.sent - before.sent, now.received - before.received};
}
inline void Add(const CollectiveTraffic& traffic, uint64_t& sent, uint64_t& received) {
  sent += traffic.sent;
  received += traffic.received;
}

// Ends on all ranks once all have begun it.
inline CollectiveCall Barrier(absl::Duration timeout, absl::string_view label) {
  CollectiveCall call;
  call.timeout = timeout;
  call.label = label;
  return call;
}

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_ARRAY_CALLS_H_
