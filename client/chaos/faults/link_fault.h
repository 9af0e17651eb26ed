#ifndef MUSTER_CLIENT_CHAOS_FAULTS_LINK_FAULT_H_
#define MUSTER_CLIENT_CHAOS_FAULTS_LINK_FAULT_H_

#include "absl/time/time.h"

namespace muster {

// A fault of the link between a calling and a called process.
struct LinkFault {
  enum class Kind {
    kNone,
    // Connections are reset, and new ones refused.
    kCut,
    // Connections stay and new ones are accepted, but nothing arrives in either direction. What was
    // sent arrives once the link is whole again, as TCP would repeat it.
    kSilent,
    // Like kSilent, in one direction only.
    kFromCaller,
    kToCaller,
    // Everything arrives, `latency` later and at `bytes_per_second` at most per direction.
    kSlow,
  };
  Kind kind = Kind::kNone;
  absl::Duration latency;
  double bytes_per_second = 0;

  // Returns the same fault for the case that the other process calls.
  LinkFault Reversed() const {
    LinkFault reversed = *this;
    if (kind == Kind::kFromCaller) reversed.kind = Kind::kToCaller;
    if (kind == Kind::kToCaller) reversed.kind = Kind::kFromCaller;
    return reversed;
  }
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_FAULTS_LINK_FAULT_H_
