#ifndef MUSTER_SERVER_COORDINATOR_CLUSTER_TASK_THREADS_H_
#define MUSTER_SERVER_COORDINATOR_CLUSTER_TASK_THREADS_H_

#include <cstdint>

namespace muster {

namespace v1 {
class DaemonRecord;
class JobSpec;
}  // namespace v1

// Returns the default: the worker's processors divided by its slots, at least 1.
uint32_t DefaultThreads(const v1::DaemonRecord& worker);

// Returns the threads that a task of the job computes with on this worker.
uint32_t TaskThreads(const v1::JobSpec& spec, const v1::DaemonRecord& worker);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CLUSTER_TASK_THREADS_H_
