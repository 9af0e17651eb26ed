#include "server/coordinator/cluster/task_threads.h"

#include <algorithm>

#include "common/job/validation/job_validator.h"
#include "proto/job.pb.h"
#include "proto/job_record.pb.h"

namespace muster {

uint32_t DefaultThreads(const v1::DaemonRecord& worker) {
  return std::clamp(worker.processors() / std::max(1u, worker.slots()), 1u, kMaxThreads);
}

uint32_t TaskThreads(const v1::JobSpec& spec, const v1::DaemonRecord& worker) {
  return spec.threads_per_worker() > 0 ? spec.threads_per_worker() : DefaultThreads(worker);
}

}  // namespace muster
