#ifndef MUSTER_SERVER_COORDINATOR_CLUSTER_CLUSTER_CAPACITY_H_
#define MUSTER_SERVER_COORDINATOR_CLUSTER_CLUSTER_CAPACITY_H_

#include <cstdint>
#include <map>
#include <string>

#include "proto/job_record.pb.h"
#include "server/coordinator/cluster/membership.h"
#include "server/coordinator/cluster/placement.h"
#include "server/coordinator/job/job_table.h"

namespace muster {

// What jobs hold of one daemon.
struct Reserved {
  uint32_t slots = 0;
  uint32_t devices = 0;
  uint64_t bytes = 0;
};

// By daemon id: what all active jobs hold. Counts the present incarnations of daemons only, as what
// an earlier one held is lost with it.
std::map<std::string, Reserved> ReservedBy(const JobTable& jobs, const Membership& members);

// What the live daemons have left. Of daemons restored from the store, only those that have called
// since count: the others keep what they have, and get nothing new.
ClusterCapacity CapacityOf(const JobTable& jobs, const Membership& members);

// All that live daemons have, heard or not: what a job could get if nothing else ran.
ClusterCapacity WholeCapacityOf(const Membership& members);

// The same without servers that are being drained: what a job could get as things are.
ClusterCapacity WholeCapacityOf(const JobTable& jobs, const Membership& members);

// What a job must be given before it can start.
Demand DemandOf(const v1::JobRecord& record, const JobTable& jobs);

// Bytes of one of its partitions, while it is placed.
uint64_t BytesPerPartition(const v1::JobRecord& record);

// What one of its slots takes of a worker.
SlotDemand SlotDemandOf(const v1::JobRecord& record);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CLUSTER_CLUSTER_CAPACITY_H_
