#ifndef MUSTER_TESTS_RECOVERY_DYING_JOB_H_
#define MUSTER_TESTS_RECOVERY_DYING_JOB_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "proto/status.pb.h"
#include "tests/harness/process_cluster.h"

namespace muster {

// Returns the sum over all tasks; a task that replaces another has a higher incarnation.
uint64_t Incarnations(const v1::JobStatus& status);

// The ZeRO stage of a job whose tasks die at the calls of a list, and which calls of the list these
// are: each `of`-th one from `first` on.
struct Deaths {
  uint32_t stage = 0;
  size_t first = 0;
  size_t of = 1;
};

// An endless job (tests/harness/endless_job.h) on a cluster of its own, with a worker daemon for
// each slot, whose tasks a test has killed at named calls (dying_task_main.cc) or anywhere. The job
// goes on each time with exactly the weights of a run that nothing disturbed. No test depends on
// the end of a lease. Where a method returns void, it fails the test on any error, as by ASSERT.
class DyingJob {
 public:
  // This is the price of a loss.
  enum class Loss {
    // Another task takes the slot, and the others keep their processes.
    kOfATask,
    // The job goes back to its last checkpoint, with new tasks.
    kOfSteps,
  };

  // Starts the cluster and the job, and waits until it has made steps and a checkpoint. The cluster
  // has so many workers beyond the job's.
  void Start(const v1::JobSpec& spec, int servers = 0, int spare_workers = 0);

  // Starts the cluster and the job, and waits until the slot's task stands still at its first call
  // of this name, such as "before push".
  void StartAndStopAt(const v1::JobSpec& spec, int servers, uint32_t slot, const std::string& call);

  ProcessCluster& cluster() { return *cluster_; }
  const std::string& id() const { return id_; }
  v1::JobStatus Status();

  // Lets the slot's task die at a call, such as "before push", or stand still there until its
  // daemon ends it ("stop before push"), and waits until the job has gone on. Fails the test if the
  // job trains on and the task never makes that call.
  void DieAt(uint32_t slot, const std::string& call, Loss loss = Loss::kOfATask);

  // Has the slot's task compute wrong bits, such as "flip once in pass 1" (dying_task_main.cc),
  // until the job has left `workers` workers or has ended. Returns its status then.
  v1::JobStatus Flip(uint32_t slot, const std::string& order, int workers);

  // Kills the tasks of these slots at once, and does not wait for what follows.
  void Kill(const std::vector<uint32_t>& slots);

  // Wait until the job has gone on since `before`: in place with so many further tasks, or from an
  // earlier checkpoint.
  void AwaitTasks(const v1::JobStatus& before, uint64_t count);
  void AwaitReturn(const v1::JobStatus& before);

  // Ends the job, and expects the weights of its last checkpoint to be those of an undisturbed job.
  void ExpectTheSameBits();

 private:
  void StartCluster(const v1::JobSpec& spec, int servers, int spare_workers = 0);
  void Submit(const v1::JobSpec& spec);
  // Lets the slot's task die or stop at a call. Returns the order's file, which is there until
  // then.
  std::string Order(uint32_t slot, const std::string& call) const;
  // Returns the worker daemon on which the slot's task runs.
  std::string WorkerOf(uint32_t slot);

  std::string deaths_;
  std::unique_ptr<ProcessCluster> cluster_;
  std::string id_;
};

}  // namespace muster

#endif  // MUSTER_TESTS_RECOVERY_DYING_JOB_H_
