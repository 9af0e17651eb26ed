#ifndef MUSTER_SERVER_COORDINATOR_LIFECYCLE_ROUND_FAILURES_H_
#define MUSTER_SERVER_COORDINATOR_LIFECYCLE_ROUND_FAILURES_H_

#include <cstdint>
#include <map>
#include <string>

#include "proto/job_record.pb.h"

namespace muster {

// Why the tasks of a round left it, for people, by what each slot says: "slot 0 on worker w0: …;
// slot 1 on worker w1: …". Slots that say the same are named together. What the fewest say comes
// first: of two that cannot reach one another both say so, and all others that these two have left.
// Long reasons and lists are cut, so that the text has a few KiB at most. Empty: none says
// anything. REQUIRES: the slots are the record's.
std::string DescribeFailures(const std::map<uint32_t, std::string>& failures,
                             const v1::JobRecord& record);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_LIFECYCLE_ROUND_FAILURES_H_
