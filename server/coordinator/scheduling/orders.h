#ifndef MUSTER_SERVER_COORDINATOR_SCHEDULING_ORDERS_H_
#define MUSTER_SERVER_COORDINATOR_SCHEDULING_ORDERS_H_

#include <string>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "proto/cluster_service.pb.h"
#include "server/coordinator/cluster/membership.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/scheduling/held_slots.h"

namespace muster {

// Addresses and settings that every order repeats.
struct OrderContext {
  std::string coordinator_address;
  std::string checkpoint_root;
  absl::Duration stall_timeout;
  // Proves orders to run programs; empty: there are no such jobs.
  std::string program_token;
};

// These return what a live daemon should be doing. The version is a fingerprint and never 0: equal
// orders have equal versions, also after a restart.

// For a worker that holds these slots.
v1::HeartbeatReply OrdersOfWorker(const Member& member, absl::Span<const HeldSlot> held,
                                  const OrderContext& context);
// For a server, by the jobs' records and the order to trace that stands; null: there is none.
v1::HeartbeatReply OrdersOfServer(const Member& member, const JobTable& jobs,
                                  const v1::TraceOrder* trace);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_SCHEDULING_ORDERS_H_
