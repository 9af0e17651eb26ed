#ifndef MUSTER_SERVER_COORDINATOR_SCHEDULING_ORDERS_H_
#define MUSTER_SERVER_COORDINATOR_SCHEDULING_ORDERS_H_

#include <string>

#include "absl/time/time.h"
#include "proto/cluster_service.pb.h"
#include "server/coordinator/cluster/membership.h"
#include "server/coordinator/job/job_table.h"

namespace muster {

// What every order says of where things are.
struct OrderContext {
  std::string coordinator_address;
  std::string checkpoint_root;
  absl::Duration stall_timeout;
};

// What a live daemon should be doing, out of the jobs' records alone. The version is a fingerprint
// of the orders, so it needs no memory: equal orders have equal versions, also across a restart of
// the coordinator. Never 0.
v1::HeartbeatReply OrdersOf(const Member& member, const JobTable& jobs,
                            const OrderContext& context);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_SCHEDULING_ORDERS_H_
