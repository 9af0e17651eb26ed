#ifndef MUSTER_SERVER_COORDINATOR_ADJUST_BATCH_SCALING_H_
#define MUSTER_SERVER_COORDINATOR_ADJUST_BATCH_SCALING_H_

#include <cstdint>
#include <optional>

#include "proto/adjustment.pb.h"

namespace muster {

namespace v1 {
class JobRecord;
}  // namespace v1

// Lets the batch follow the number of data ranks (JobSpec.scale_batch) when a round of so many is
// about to open at `clock`, of a job with so many training examples. Absent: the batch stays.
//
// With two data ranks and batch_size 8, of which a third joins at clock 40 and another leaves at
// clock 90, steps have 8 examples, then 12, then 8. Each rank computes the same number throughout.
// A round may begin where the last one did, if no step was made in between: of two decisions at one
// clock the later one holds.
//
// A pure function, so a coordinator that was restarted before it had stored its decision decides
// the same for the same round.
std::optional<v1::Adjustment> DecideScaledBatch(const v1::JobRecord& record, uint64_t clock,
                                                uint32_t data_ranks, uint64_t training_examples);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_ADJUST_BATCH_SCALING_H_
