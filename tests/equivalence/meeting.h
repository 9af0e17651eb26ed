#ifndef MUSTER_TESTS_EQUIVALENCE_MEETING_H_
#define MUSTER_TESTS_EQUIVALENCE_MEETING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/transport/in_process_transport_for_testing.h"

namespace muster {

// What the coordinator does for tasks that train by all-reduce: brings a job's slots together,
// round after round, in groups of ranks of this process. Slots are ranks. Thread-safe.
class Meeting {
 public:
  Meeting(int slots, const InProcessOptions& options);

  struct Place {
    std::unique_ptr<Communicator> communicator;
    // Whose replica all go on from; none if nobody has one.
    absl::optional<int> source;
  };

  // Blocks until all slots have come, and gives each its rank in a new group. FailedPrecondition: a
  // slot's task has failed, so not all will come.
  absl::StatusOr<Place> Arrive(int slot, absl::optional<uint64_t> replica_clock);

  // Tells that a slot's task has ended with an error that is no loss of another.
  void Fail(int slot, const absl::Status& error);

  // Kills the slot's rank in the present group, as SIGKILL does.
  void Kill(int slot);

  // Groups made so far.
  int rounds() const;

 private:
  const int slots_;
  const InProcessOptions options_;
  mutable absl::Mutex mutex_;
  // Of the round that is coming together.
  int arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<absl::optional<uint64_t>> clocks_ ABSL_GUARDED_BY(mutex_);
  int rounds_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<InProcessGroup> group_ ABSL_GUARDED_BY(mutex_);
  absl::optional<int> source_ ABSL_GUARDED_BY(mutex_);
  // OK unless a task has failed.
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_MEETING_H_
