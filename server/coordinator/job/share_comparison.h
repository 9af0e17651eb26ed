#ifndef MUSTER_SERVER_COORDINATOR_JOB_SHARE_COMPARISON_H_
#define MUSTER_SERVER_COORDINATOR_JOB_SHARE_COMPARISON_H_

#include <cstdint>
#include <map>
#include <set>

#include "absl/types/span.h"

namespace muster {

// A slot's opinion on one data rank's share of a step: the fingerprint of its own part of the
// gradients.
struct ShareOpinion {
  uint32_t slot = 0;
  // The part of the model, or of sequences, that the slot computes: its position among the ranks of
  // a data rank. Slots with the same part must come to the same gradients of a share.
  int part = 0;
  uint32_t share = 0;
  uint64_t gradients = 0;
};

// The verdict that follows from all opinions on a step.
struct StepVerdict {
  // The slots that computed wrong bits, each with a share in which they are.
  std::map<uint32_t, uint32_t> wrong;
  // Other slots that disagree, while nothing says which of them are wrong.
  std::set<uint32_t> unsettled;

  bool right() const { return wrong.empty() && unsettled.empty(); }
};

// Compares what slots computed of the same shares. A slot is wrong
//
//   if it computed a share twice and came to different gradients, or
//   if it disagrees with more than half of the slots that computed a share, at least three.
//
// Where the ranks of one data rank compute together, wrong bits of one of them spread to the
// others, in activations: then all that differ are wrong. A pure function.
StepVerdict CompareShares(absl::Span<const ShareOpinion> opinions);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_SHARE_COMPARISON_H_
