#ifndef MUSTER_CLIENT_CHAOS_FAULTS_LINK_FAULT_H_
#define MUSTER_CLIENT_CHAOS_FAULTS_LINK_FAULT_H_

#include "absl/time/time.h"

namespace muster {

// What is wrong with a link between a process that calls and one that is called.
struct LinkFault {
  enum class Kind {
    kNone,
    // Connections are reset, and new ones refused.
    kCut,
    // Connections stay, new ones are taken, and nothing arrives in either direction. What was sent
    // arrives when the link is whole again, as TCP would repeat it.
    kSilent,
    // The same in one direction; the other one works.
    kFromCaller,
    kToCaller,
    // All arrives, `latency` later and `bytes_per_second` at most, a direction.
    kSlow,
  };
  Kind kind = Kind::kNone;
  absl::Duration latency;
  double bytes_per_second = 0;

  // The same fault, where the other process calls.
  LinkFault Reversed() const {
    LinkFault reversed = *this;
    if (kind == Kind::kFromCaller) reversed.kind = Kind::kToCaller;
    if (kind == Kind::kToCaller) reversed.kind = Kind::kFromCaller;
    return reversed;
  }
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_FAULTS_LINK_FAULT_H_
