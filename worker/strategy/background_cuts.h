#ifndef MUSTER_WORKER_STRATEGY_BACKGROUND_CUTS_H_
#define MUSTER_WORKER_STRATEGY_BACKGROUND_CUTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "worker/strategy/training_state.h"

namespace muster {

// Cuts whose files are written while training goes on:
//
//   Take(c)       every slot, where TrainingState::Cut would be called; training may go on
//   Write(c, b)   slot 0 alone, right after its Take(c)
//   Written()     … between steps, until it says so
//   AwaitFiles()
//
// One cut at a time is written. A cut that could not be written, or whose view was lost on the way
// (its server was restarted, the slot's task was another one), is given up; the next one does not
// depend on it. Used by the strategy's thread; errors are those of its hooks.
class BackgroundCuts {
 public:
  virtual ~BackgroundCuts() = default;

  // Returns once all slots have closed the clock and whoever writes files (every partition, every
  // rank) holds a view or a copy of that moment.
  virtual absl::Status Take(uint64_t clock) = 0;

  // Has the views written, unless that began with Take: rows that changed since the cut at `base`
  // alone where that is possible, else all. Does not block. REQUIRES: no other cut is being
  // written.
  virtual void Write(uint64_t clock, absl::optional<uint64_t> base) = 0;

  // Whether AwaitFiles would not block, as far as hooks have taken answers in. REQUIRES: Write.
  virtual bool Written() const = 0;

  // Waits until all files are durable.
  virtual absl::StatusOr<CutFiles> AwaitFiles() = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_BACKGROUND_CUTS_H_
