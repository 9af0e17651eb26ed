#ifndef MUSTER_WORKER_COLLECTIVES_HOST_RUN_CASES_FOR_TESTING_H_
#define MUSTER_WORKER_COLLECTIVES_HOST_RUN_CASES_FOR_TESTING_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "worker/collectives/host/collective_cases_for_testing.h"
#include "worker/collectives/host/communicator_backends_for_testing.h"

namespace muster {

// Collects what went wrong on the threads of a test, five faults at most. Thread-safe.
class Faults {
 public:
  void Add(const std::string& fault) {
    if (fault.empty()) return;
    absl::MutexLock lock(&mutex_);
    if (faults_.size() < 5) faults_.push_back(fault);
  }
  void Add(const absl::Status& status) { Add(status.ok() ? "" : status.ToString()); }
  std::vector<std::string> Take() {
    absl::MutexLock lock(&mutex_);
    return std::move(faults_);
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::string> faults_ ABSL_GUARDED_BY(mutex_);
};

// Makes all the calls of `cases` on every rank, one after the other. Returns what went wrong.
std::vector<std::string> RunCases(TestGroup& group, const std::vector<CollectiveCase>& cases);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_RUN_CASES_FOR_TESTING_H_
