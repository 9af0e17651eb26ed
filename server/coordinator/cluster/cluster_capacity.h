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

// Amounts that jobs hold of one daemon.
struct Reserved {
  uint32_t slots = 0;
  uint32_t devices = 0;
  uint64_t bytes = 0;
};

// Returns what all active jobs hold, by daemon id. Counts only present incarnations of daemons:
// what an earlier incarnation held is lost with it.
std::map<std::string, Reserved> ReservedBy(const JobTable& jobs, const Membership& members);

// Returns what the live daemons that are not being drained, and do not leave, have left. A daemon
// restored from the store counts only after it has called: until then it keeps what it has and gets
// nothing new.
ClusterCapacity CapacityOf(const JobTable& jobs, const Membership& members);

// Returns all that the live daemons have, heard or not: what a job could get if nothing else ran.
ClusterCapacity WholeCapacityOf(const Membership& members);

// Returns the same without daemons that are being drained or leave: what a job could get as things
// are.
ClusterCapacity WholeCapacityOf(const JobTable& jobs, const Membership& members);

// Returns what a job must be given before it can start.
Demand DemandOf(const v1::JobRecord& record, const JobTable& jobs);

// Returns the bytes of one of the job's partitions while it is placed.
uint64_t BytesPerPartition(const v1::JobRecord& record);

// Returns what one of the job's slots takes of a worker.
SlotDemand SlotDemandOf(const v1::JobRecord& record);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CLUSTER_CLUSTER_CAPACITY_H_
