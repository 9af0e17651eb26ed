#ifndef MUSTER_CLIENT_COMPARE_PASS_TIMES_H_
#define MUSTER_CLIENT_COMPARE_PASS_TIMES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/step/step_timeline.h"

namespace muster {

namespace v1 {
class JobSpec;
class TraceChunk;
}  // namespace v1

// The time that one slot spent in the steps of a trace, in seconds.
struct SlotTimes {
  uint64_t steps = 0;
  // Of whole steps; of the optimizer within them.
  double in_steps = 0;
  double in_optimizer = 0;
  // Of the passes of each unit over all micro-batches. A backward pass that is not split counts as
  // that of the input, and so do both passes of the last unit, which run at the beginning of
  // backward.
  std::map<int, VirtualStageTimes> units;

  // Returns the time of all passes.
  double in_passes() const;
};

// The times of all slots of a job, by slot.
using PassTimes = std::map<uint32_t, SlotTimes>;

// Adds what a message of a trace says (common/step/action.h names the events).
void AddTimes(const v1::TraceChunk& chunk, PassTimes& times);

// Figures of a step of several stages, from the times of its passes.
struct ScheduleFigures {
  // The time of a step in which every stage makes each pass as soon as the job's schedule and its
  // inputs let it, and steps its parameters after its last; transfers take no time.
  double predicted_seconds = 0;
  // The time that stages wait in such a step, by the time of their passes.
  double predicted_bubble = 0;
  // The same as measured, the optimizer's time left out.
  double bubble = 0;
};

// Returns the figures of a job with several stages, whose virtual stages have so many units.
// Absent if a stage has no times.
std::optional<ScheduleFigures> FiguresOfSchedule(const v1::JobSpec& spec,
                                                 const std::vector<int>& virtual_stage_units,
                                                 const PassTimes& times);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_PASS_TIMES_H_
