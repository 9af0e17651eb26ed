#ifndef MUSTER_CLIENT_COMPARE_WORKER_TRAFFIC_H_
#define MUSTER_CLIENT_COMPARE_WORKER_TRAFFIC_H_

#include "absl/types/span.h"

namespace muster {

// Payload bytes of a step that one worker sends and receives.
struct WorkerTraffic {
  double sent = 0;
  double received = 0;

  WorkerTraffic& operator+=(const WorkerTraffic& other) {
    sent += other.sent;
    received += other.received;
    return *this;
  }
  WorkerTraffic& operator*=(double factor) {
    sent *= factor;
    received *= factor;
    return *this;
  }
  friend bool operator==(const WorkerTraffic& a, const WorkerTraffic& b) = default;
};

// Returns the mean, or zeros for no workers.
WorkerTraffic MeanOf(absl::Span<const WorkerTraffic> workers);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_WORKER_TRAFFIC_H_
