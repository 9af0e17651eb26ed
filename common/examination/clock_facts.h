#ifndef MUSTER_COMMON_EXAMINATION_CLOCK_FACTS_H_
#define MUSTER_COMMON_EXAMINATION_CLOCK_FACTS_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace muster {

namespace v1 {
class ClockFacts;
}  // namespace v1

// Compares this process's wall clock with the coordinator's. `read` returns the coordinator's time
// in microseconds since 1970. That time was read at some moment of the round trip, so the offset is
// at most half the round trip wrong; the shortest of a few round trips counts.
void CompareClocks(const Clock& clock, const std::function<absl::StatusOr<int64_t>()>& read,
                   v1::ClockFacts& facts);

}  // namespace muster

#endif  // MUSTER_COMMON_EXAMINATION_CLOCK_FACTS_H_
