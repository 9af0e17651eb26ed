#ifndef MUSTER_CLIENT_TERMINAL_TOP_FRAME_H_
#define MUSTER_CLIENT_TERMINAL_TOP_FRAME_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

namespace v1 {
class GetClusterReply;
class ListJobsReply;
}  // namespace v1

// Size of what is drawn, in characters and lines.
struct FrameSize {
  size_t columns = 80;
  size_t lines = 24;
};

// Returns the cluster at a glance, as `muster top` draws it: a line of sums; the jobs that have not
// ended, running ones first, with step, loss, speed and time left; daemons, lost ones first; and,
// per running job, where each slot's step goes, slow slots first. `trouble`, if there is any, comes
// before all: what is shown is old then. Lines are cut to the columns, and the last line says how
// many do not fit. Escapes what must not reach a terminal.
std::string TopFrame(const v1::ListJobsReply& jobs, const v1::GetClusterReply& cluster,
                     const FrameSize& size, absl::string_view trouble = "");

}  // namespace muster

#endif  // MUSTER_CLIENT_TERMINAL_TOP_FRAME_H_
