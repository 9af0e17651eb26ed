#ifndef MUSTER_WORKER_STRATEGY_SERVERS_ROW_ARRAYS_H_
#define MUSTER_WORKER_STRATEGY_SERVERS_ROW_ARRAYS_H_

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace muster {

// Vectors that go round: filled by somebody, held while a transport still sends from them, and free
// again when the last holder lets go. Thread-safe. Holders may outlive it.
class RowArrays {
 public:
  // Takes what `values` holds and gives it the memory of an array that is free, or none, for
  // unspecified contents in either case.
  std::shared_ptr<const std::vector<float>> Hold(std::vector<float>& values);

 private:
  struct State {
    absl::Mutex mutex;
    std::vector<std::vector<float>> free ABSL_GUARDED_BY(mutex);
  };

  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SERVERS_ROW_ARRAYS_H_
