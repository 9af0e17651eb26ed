#ifndef MUSTER_SERVER_COORDINATOR_LIFECYCLE_ROUND_FAILURES_H_
#define MUSTER_SERVER_COORDINATOR_LIFECYCLE_ROUND_FAILURES_H_

#include <cstdint>
#include <map>
#include <string>

#include "proto/job_record.pb.h"

namespace muster {

// Returns why the tasks of a round left it, for people: "slot 0 on worker w0: …; slot 1 on worker
// w1: …". Slots with the same reason are named together. The reason of the fewest slots comes
// first: if two tasks cannot reach one another, both say so, and all others say that these two
// left. The text is cut to a few KiB. Empty: no reasons. REQUIRES: the slots are the record's.
std::string DescribeFailures(const std::map<uint32_t, std::string>& failures,
                             const v1::JobRecord& record);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_LIFECYCLE_ROUND_FAILURES_H_
