#include "common/trace/clock_offset.h"

#include <algorithm>
#include <utility>

namespace muster {
namespace {

// Monotonic clocks that are disciplined drift by less: one part in so many.
constexpr int64_t kDrift = 10'000;

}  // namespace

void ClockOffset::Add(int64_t sent_ns, int64_t answered_ns, int64_t received_ns) {
  const int64_t half = (received_ns - sent_ns + 1) / 2;
  error_ns_ += (received_ns - std::exchange(last_ns_, received_ns)) / kDrift;
  if (known_ && half >= error_ns_) return;
  known_ = true;
  offset_ns_ = answered_ns - (sent_ns + (received_ns - sent_ns) / 2);
  // An error of 0 stands for clocks that were not compared.
  error_ns_ = std::max<int64_t>(1, half);
}

}  // namespace muster
