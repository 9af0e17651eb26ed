#ifndef MUSTER_SERVER_COORDINATOR_LIFECYCLE_EARLY_STOP_H_
#define MUSTER_SERVER_COORDINATOR_LIFECYCLE_EARLY_STOP_H_

#include <string>

namespace muster {

namespace v1 {
class JobRecord;
}  // namespace v1

// Returns why a job ends at its last evaluation, before its last step: its target is reached, its
// hours are over, or its patience is. Empty: it goes on. A pure function of the record, so a
// restarted coordinator decides the same. Patience does not count evaluations without a value.
// REQUIRES: the record has an evaluation.
std::string StopsAfter(const v1::JobRecord& record);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_LIFECYCLE_EARLY_STOP_H_
