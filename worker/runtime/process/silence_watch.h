#ifndef MUSTER_WORKER_RUNTIME_PROCESS_SILENCE_WATCH_H_
#define MUSTER_WORKER_RUNTIME_PROCESS_SILENCE_WATCH_H_

#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace muster {

// Finds a process that shows signs of life again and again, and then none: it is stopped or frozen.
// A process that never showed one is not silent. Time in which the watching process stood still
// itself does not count. Times are monotonic. Not thread-safe.
class SilenceWatch {
 public:
  // The watch is to be asked at least this often; more time between two looks is a pause of the
  // watching process.
  static constexpr absl::Duration kLookEvery = absl::Milliseconds(500);

  // `limit` may be infinite: nothing is silent.
  explicit SilenceWatch(absl::Duration limit) : limit_(limit) {}

  // Notes a sign of life.
  void Heard(absl::Duration now);
  // Ends the watch: there will be no more signs.
  void End() { heard_.reset(); }
  // Looks whether the last sign is further back than the limit.
  bool IsSilent(absl::Duration now);

 private:
  const absl::Duration limit_;
  // Time of the last sign, later by the watching process's own pauses since.
  absl::optional<absl::Duration> heard_;
  absl::Duration looked_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROCESS_SILENCE_WATCH_H_
