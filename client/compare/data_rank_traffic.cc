#include "client/compare/data_rank_traffic.h"

#include <algorithm>
#include <map>

#include "common/mesh/job_mesh.h"
#include "proto/job.pb.h"
#include "worker/data/sampling/shares.h"

namespace muster {

std::vector<WorkerTraffic> TrafficOfDataRanks(const v1::JobSpec& spec, TrafficOfExamples traffic) {
  std::vector<WorkerTraffic> workers;
  // By number of examples.
  std::map<uint64_t, std::vector<WorkerTraffic>> of_rank;
  for (uint32_t d = 0; d < SizeAlong(kDataAxes, spec); ++d) {
    const auto examples =
        static_cast<uint64_t>(ShareOf(spec.batch_size(), d, SizeAlong(kDataAxes, spec)).size());
    auto& group = of_rank[examples];
    if (group.empty()) group = traffic(examples);
    workers.insert(workers.end(), group.begin(), group.end());
  }
  return workers;
}

WorkerTraffic MeanTrafficOfDataRanks(const v1::JobSpec& spec, TrafficOfExamples traffic) {
  const uint64_t data_ranks = SizeAlong(kDataAxes, spec);
  const uint64_t examples = spec.batch_size() / data_ranks;
  const uint64_t larger = spec.batch_size() % data_ranks;
  const auto of_all = [&](uint64_t share, uint64_t ranks) {
    WorkerTraffic sum = MeanOf(traffic(share));
    sum *= static_cast<double>(ranks);
    return sum;
  };
  WorkerTraffic sum = of_all(examples, data_ranks - larger);
  if (larger > 0) sum += of_all(examples + 1, larger);
  sum.sent /= static_cast<double>(data_ranks);
  sum.received /= static_cast<double>(data_ranks);
  return sum;
}

void ForEachMicroBatchSize(const v1::JobSpec& spec, uint64_t examples,
                           absl::FunctionRef<void(uint64_t examples, uint64_t count)> visitor) {
  const uint64_t micro_batches = std::max(1u, spec.micro_batches());
  const uint64_t larger = examples % micro_batches;
  if (larger > 0) visitor(examples / micro_batches + 1, larger);
  visitor(examples / micro_batches, micro_batches - larger);
}

}  // namespace muster
