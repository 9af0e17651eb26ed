#ifndef MUSTER_SERVER_COORDINATOR_HISTORY_LOSS_JUMPS_H_
#define MUSTER_SERVER_COORDINATOR_HISTORY_LOSS_JUMPS_H_

#include <cstdint>
#include <deque>
#include <optional>

#include "absl/types/span.h"
#include "common/history/series.h"

namespace muster {

// A training loss far above those before it.
struct LossJump {
  // The first step whose loss is too high, or may be.
  uint64_t step = 0;
  double loss = 0;
  // Mean of the steps before.
  double mean = 0;
};

// Watches a job's training loss for jumps (DivergenceSpec.jump): a loss above `factor` times the
// mean of the last 100 steps. The first steps are let pass, until the mean is of at least ten. What
// has jumped is not part of the mean. Not thread-safe.
class LossJumps {
 public:
  // 0: nothing is a jump.
  explicit LossJumps(double factor) : factor_(factor) {}

  // Takes the job's losses of further steps, in order.
  void Add(absl::Span<const SeriesPoint> losses);
  // Returns the first jump since the last call.
  std::optional<LossJump> Take();
  // The job goes on from an earlier clock.
  void CutAfter(uint64_t clock);

 private:
  struct Loss {
    uint64_t first_step = 0;
    uint64_t steps = 0;
    double mean = 0;
  };

  const double factor_;
  // The last steps, in order: 100, and those that were reported together with the first of these.
  std::deque<Loss> last_;
  uint64_t steps_ = 0;
  std::optional<LossJump> jump_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_HISTORY_LOSS_JUMPS_H_
