#include "client/compare/worker_traffic.h"

namespace muster {

WorkerTraffic MeanOf(absl::Span<const WorkerTraffic> workers) {
  WorkerTraffic mean;
  if (workers.empty()) return mean;
  for (const WorkerTraffic& worker : workers) mean += worker;
  mean.sent /= static_cast<double>(workers.size());
  mean.received /= static_cast<double>(workers.size());
  return mean;
}

}  // namespace muster
