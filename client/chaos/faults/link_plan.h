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

// A fault of one link, and the process that is killed when the fault begins.
struct PlannedFault {
  // Time after the previous fault began, or after the job's first step. Faults may overlap.
  absl::Duration pause;
  Link link;
  LinkFault fault;
  absl::Duration lasts;
  // One of the link's two ends, or "" for none.
  std::string killed;
  // The one of the link's two ends whose partitions move to the other, starting `lead` before the
  // fault begins; or "" for none.
  std::string drained;
  absl::Duration lead;

  // Returns a text such as "cut server-1 to coordinator for 1.9s, server-1 killed".
  std::string Describe() const;
};

// Returns the faults of a round of `kind`, which is a kind with link faults, on these links: a pure
// function. Times are in proportion to the lease: some faults last longer than the lease, others
// less long. Faults of kLinksAndMoves follow one another, and the two ends of their link are
// drained in turn.
std::vector<PlannedFault> PlanLinkFaults(ChaosKind kind, uint64_t seed, int count,
                                         const std::vector<Link>& links, absl::Duration lease);

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_FAULTS_LINK_PLAN_H_
