#include "server/coordinator/cluster/cluster_capacity.h"

#include <algorithm>

#include "common/base/round_up.h"
#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "server/coordinator/cluster/shard_map.h"
#include "server/coordinator/cluster/task_threads.h"
#include "server/coordinator/job/job_state_machine.h"

namespace muster {
namespace {

uint64_t OrUnlimited(uint64_t bytes) { return bytes == 0 ? kUnlimitedBytes : bytes; }

uint64_t SmallestDevice(const v1::DaemonRecord& record) {
  uint64_t smallest = kUnlimitedBytes;
  for (const v1::Device& device : record.devices()) {
    smallest = std::min(smallest, OrUnlimited(device.memory_bytes()));
  }
  return record.devices().empty() ? 0 : smallest;
}

uint64_t Left(uint64_t bytes, uint64_t reserved) {
  if (bytes == kUnlimitedBytes) return bytes;
  return bytes - std::min(bytes, reserved);
}

void AddMember(const Member& member, const Reserved& reserved, ClusterCapacity& capacity) {
  const v1::DaemonRecord& record = member.record;
  const uint64_t bytes = OrUnlimited(record.memory_bytes());
  if (member.kind() == v1::WORKER) {
    const uint32_t devices = record.devices_size();
    capacity.workers.push_back(
        {.id = record.id(),
         .incarnation = record.incarnation(),
         .slots = record.slots(),
         .free_slots = record.slots() - std::min(record.slots(), reserved.slots),
         .devices = devices,
         .free_devices = devices - std::min(devices, reserved.devices),
         .device_bytes = SmallestDevice(record),
         .multiplies_bf16 = record.multiplies_bf16(),
         .allows_programs = record.allows_programs(),
         .task_threads = DefaultThreads(record),
         .bytes = bytes,
         .free_bytes = Left(bytes, reserved.bytes)});
  } else {
    capacity.servers.push_back({.identity = IdentityOf(record),
                                .bytes = bytes,
                                .free_bytes = Left(bytes, reserved.bytes)});
  }
}

}  // namespace

std::map<std::string, Reserved> ReservedBy(const JobTable& jobs, const Membership& members) {
  std::map<std::string, Reserved> reserved;
  for (const auto& [number, job] : jobs.jobs()) {
    const v1::JobRecord& record = job->record;
    if (!IsActive(record.state())) {
      // Servers hold an ended job's tables until they have dropped them.
      for (const v1::ServerRecord& server : record.servers()) {
        if (jobs.DropsOf(server.server_id()).contains(record.job_id())) {
          reserved[server.server_id()].bytes += server.reserved_bytes();
        }
      }
      continue;
    }
    for (const v1::SlotRecord& slot : record.slots()) {
      if (slot.done() || slot.worker_id().empty()) continue;
      if (!members.Holds(slot.worker_id(), slot.worker_incarnation())) continue;
      Reserved& worker = reserved[slot.worker_id()];
      const SlotDemand takes = SlotDemandOf(record);
      ++worker.slots;
      worker.devices += takes.devices;
      worker.bytes += takes.bytes;
    }
    // A server that is away keeps its share: the job waits for it, or is about to give it up.
    for (const v1::ServerRecord& server : record.servers()) {
      reserved[server.server_id()].bytes += server.reserved_bytes();
    }
    for (const v1::MoveRecord& move : record.moves()) {
      if (move.state() == v1::MoveRecord::COPYING) {
        reserved[move.to_server()].bytes += BytesPerPartition(record);
      }
    }
  }
  return reserved;
}

ClusterCapacity CapacityOf(const JobTable& jobs, const Membership& members) {
  const std::map<std::string, Reserved> reserved = ReservedBy(jobs, members);
  ClusterCapacity capacity;
  for (const auto& [id, member] : members.members()) {
    if (!member.live || !member.heard || member.leaves) continue;
    if (jobs.draining().count(id) > 0) continue;
    const auto it = reserved.find(id);
    AddMember(member, it == reserved.end() ? Reserved{} : it->second, capacity);
  }
  return capacity;
}

ClusterCapacity WholeCapacityOf(const Membership& members) {
  ClusterCapacity capacity;
  for (const auto& [id, member] : members.members()) {
    if (member.live) AddMember(member, Reserved{}, capacity);
  }
  return capacity;
}

ClusterCapacity WholeCapacityOf(const JobTable& jobs, const Membership& members) {
  ClusterCapacity capacity = WholeCapacityOf(members);
  std::erase_if(capacity.servers, [&](const ServerCapacity& server) {
    return jobs.draining().count(server.identity.server_id) > 0;
  });
  std::erase_if(capacity.workers, [&](const WorkerCapacity& worker) {
    return jobs.draining().count(worker.id) > 0 || members.Find(worker.id)->leaves;
  });
  return capacity;
}

Demand DemandOf(const v1::JobRecord& record, const JobTable& jobs) {
  Demand demand{.slots = record.spec().workers(),
                .group = SizeAlong(kLayerAxes, record.spec()),
                .expert_group = SizeAlong(kLayerAxes | kExpertAxes, record.spec()),
                .slot = SlotDemandOf(record),
                .apart = SizeAlong(kShardAxes, record.spec()) > 1 &&
                         record.spec().parallelism().zero().redundancy() > 0 &&
                         record.state() != v1::RECOVERING,
                .servers = record.spec().servers(),
                .partitions = NeedsServers(record.spec()) ? record.spec().update().partitions() : 0,
                .server_bytes = record.predicted_server_bytes()};
  for (const auto& [server, dropping] : jobs.drops()) {
    if (dropping.contains(record.job_id())) demand.excluded_servers.insert(server);
  }
  return demand;
}

uint64_t BytesPerPartition(const v1::JobRecord& record) {
  const uint64_t partitions = std::max(record.partitions_size(), 1);
  return CeilDivide<uint64_t>(record.predicted_server_bytes(), partitions);
}

SlotDemand SlotDemandOf(const v1::JobRecord& record) {
  const uint64_t workers = std::max<uint64_t>(record.spec().workers(), 1);
  SlotDemand demand{.bytes = record.predicted_worker_bytes() / workers,
                    .devices = record.spec().compute().device() == v1::ComputeSpec::CUDA ? 1u : 0u,
                    .device_bytes = record.predicted_device_bytes(),
                    .program = RunsProgram(record.spec())};
  for (const v1::LeftWorker& left : record.left_workers()) {
    demand.left_workers.insert(left.worker_id());
  }
  return demand;
}

}  // namespace muster
