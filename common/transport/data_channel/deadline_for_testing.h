#ifndef MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_DEADLINE_FOR_TESTING_H_
#define MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_DEADLINE_FOR_TESTING_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace muster {

// How long tests of data channels wait for what is to come at once.
inline constexpr absl::Duration kTimeout = absl::Seconds(30);

inline absl::Time TestDeadline() { return absl::Now() + kTimeout; }

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_DEADLINE_FOR_TESTING_H_
