#ifndef MUSTER_SERVER_COORDINATOR_LIFECYCLE_EARLY_STOP_H_
#define MUSTER_SERVER_COORDINATOR_LIFECYCLE_EARLY_STOP_H_

#include <string>

namespace muster {

namespace v1 {
class JobRecord;
}  // namespace v1

// Why a job ends at its last evaluation, before its last step: the target is reached, its hours are
// over, or its patience is. Empty: it goes on. A pure function of the record, so a coordinator that
// starts again decides the same. Evaluations without a value are not counted by patience.
std::string StopsAfter(const v1::JobRecord& record);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_LIFECYCLE_EARLY_STOP_H_
