#ifndef MUSTER_CLIENT_CHAOS_FAULTS_LINK_PLAN_H_
#define MUSTER_CLIENT_CHAOS_FAULTS_LINK_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/chaos/faults/chaos_plan.h"
#include "client/chaos/faults/cluster_links.h"
#include "client/chaos/faults/link_fault.h"

namespace muster {

// A fault of one link, and who is killed when it begins.
struct PlannedFault {
  // After the fault before began, or the job's first step. Several may last at the same time.
  absl::Duration pause;
  Link link;
  LinkFault fault;
  absl::Duration lasts;
  // "": nobody; otherwise one of the link's two ends.
  std::string killed;
  // "": nobody; otherwise the one of the link's two ends whose partitions move to the other, from
  // `lead` before the fault begins.
  std::string drained;
  absl::Duration lead;

  // Such as "cut server-1 to coordinator for 1.9s, server-1 killed".
  std::string Describe() const;
};

// The faults of a round of `kind`, which is one of link faults, on these links: a pure function.
// Times are in proportion to the lease, which some faults outlast and others do not. Faults of
// kLinksAndMoves follow one another, and the two ends of their link are drained by turns.
std::vector<PlannedFault> PlanLinkFaults(ChaosKind kind, uint64_t seed, int count,
                                         const std::vector<Link>& links, absl::Duration lease);

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_FAULTS_LINK_PLAN_H_
