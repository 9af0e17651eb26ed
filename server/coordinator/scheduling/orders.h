#ifndef MUSTER_SERVER_COORDINATOR_SCHEDULING_ORDERS_H_
#define MUSTER_SERVER_COORDINATOR_SCHEDULING_ORDERS_H_

#include <string>

#include "absl/time/time.h"
#include "proto/cluster_service.pb.h"
#include "server/coordinator/cluster/membership.h"
#include "server/coordinator/job/job_table.h"

namespace muster {

// Addresses and settings that every order repeats.
struct OrderContext {
  std::string coordinator_address;
  std::string checkpoint_root;
  absl::Duration stall_timeout;
  // Proves orders to run programs; empty: there are no such jobs.
  std::string program_token;
};

// Returns what a live daemon should be doing, by the jobs' records and, for a server, the order to
// trace that stands (null: there is none). The version is a fingerprint and never 0: equal orders
// have equal versions, also after a restart.
v1::HeartbeatReply OrdersOf(const Member& member, const JobTable& jobs, const OrderContext& context,
                            const v1::TraceOrder* trace = nullptr);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_SCHEDULING_ORDERS_H_
