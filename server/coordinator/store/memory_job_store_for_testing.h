#ifndef MUSTER_SERVER_COORDINATOR_STORE_MEMORY_JOB_STORE_FOR_TESTING_H_
#define MUSTER_SERVER_COORDINATOR_STORE_MEMORY_JOB_STORE_FOR_TESTING_H_

#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/coordinator/store/job_store.h"

namespace muster {

// A JobStore that lasts as long as the object. For tests, and to measure what the disk costs.
class MemoryJobStore final : public JobStore {
 public:
  absl::Status Write(const JobStoreBatch& batch, Durability durability) override;
  absl::Status Scan(
      StoreTable table, absl::string_view prefix,
      absl::FunctionRef<absl::Status(absl::string_view, absl::string_view)> visitor) const override;

 private:
  mutable absl::Mutex mutex_;
  std::map<std::pair<StoreTable, std::string>, std::string> records_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_STORE_MEMORY_JOB_STORE_FOR_TESTING_H_
