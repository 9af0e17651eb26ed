#include "server/coordinator/scheduling/partition_loads.h"

#include <cmath>

namespace muster {
namespace {

// Least time between two samples that are kept.
constexpr absl::Duration kSampleInterval = absl::Seconds(1);
// Longest silence after which figures still count.
constexpr absl::Duration kFresh = absl::Seconds(10);

}  // namespace

void PartitionLoads::Take(const v1::HeartbeatRequest& request, absl::Duration now) {
  Server& server = servers_[request.id()];
  // Another process counts from zero.
  if (server.incarnation != request.incarnation()) server = {.incarnation = request.incarnation()};
  server.heard = now;
  std::map<Key, Partition> told;
  for (const v1::PartitionLoad& load : request.partition_loads()) {
    if (!std::isfinite(load.busy_seconds()) || load.busy_seconds() < 0) continue;
    const Key key = {load.job_id(), load.partition()};
    Partition& partition = told[key];
    partition.generation = load.generation();
    if (const auto known = server.partitions.find(key);
        known != server.partitions.end() && known->second.generation == load.generation() &&
        known->second.samples.back().busy_seconds <= load.busy_seconds()) {
      partition.samples = std::move(known->second.samples);
    }
    std::deque<Sample>& samples = partition.samples;
    if (samples.empty() || now - samples.back().time >= kSampleInterval) {
      samples.push_back({.time = now, .busy_seconds = load.busy_seconds()});
    }
    while (samples.size() > 1 && samples[1].time <= now - kWindow) samples.pop_front();
  }
  server.partitions = std::move(told);
}

bool PartitionLoads::Measure(const std::string& server_id, absl::Duration now, Cores& cores) const {
  cores.clear();
  const auto server = servers_.find(server_id);
  if (server == servers_.end() || now - server->second.heard > kFresh) return false;
  for (const auto& [key, partition] : server->second.partitions) {
    const Sample &first = partition.samples.front(), &last = partition.samples.back();
    if (now - first.time < kWindow) return false;
    cores[key] =
        (last.busy_seconds - first.busy_seconds) / absl::ToDoubleSeconds(last.time - first.time);
  }
  return true;
}

}  // namespace muster
