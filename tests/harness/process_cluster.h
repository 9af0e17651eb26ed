#ifndef MUSTER_TESTS_HARNESS_PROCESS_CLUSTER_H_
#define MUSTER_TESTS_HARNESS_PROCESS_CLUSTER_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cluster/job_client.h"
#include "common/rpc/tls_files.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"
#include "tests/harness/safetensors_reader.h"

namespace muster {

// A cluster of the real daemons, each a process on loopback, that a test kills and starts again as
// it likes. Daemons are named coordinator, server-0 …, worker-0 …; a restarted one keeps its data
// folder, and the coordinator its port. The destructor kills all that still run. A test's failure
// output names the logs. Single-threaded.
class ProcessCluster {
 public:
  struct Options {
    int servers = 2;
    int workers = 2;
    int slots_per_worker = 1;
    // Emulated, at most 2.
    int devices_per_worker = 0;
    // Short, so that tests of loss are quick.
    absl::Duration lease = absl::Seconds(2);
    // The certificate of every daemon and of this client, which names 127.0.0.1.
    TlsFiles tls;
    // Workers take jobs that run programs, and this client may submit them.
    bool allow_programs = false;
    // Further ones.
    std::vector<std::string> worker_arguments, coordinator_arguments;
  };

  // Starts all daemons in a fresh folder and waits until they have joined.
  static absl::StatusOr<std::unique_ptr<ProcessCluster>> Start(Options options);
  ~ProcessCluster();
  ProcessCluster(const ProcessCluster&) = delete;
  ProcessCluster& operator=(const ProcessCluster&) = delete;

  JobClient& jobs() { return *jobs_; }
  const std::string& coordinator_address() const { return coordinator_address_; }
  const std::string& folder() const { return folder_; }

  // Ends a daemon with a signal and reaps it. REQUIRES: it runs.
  void Kill(const std::string& name, int signal);
  // Ends it with SIGTERM; returns how long it took to go.
  absl::Duration Stop(const std::string& name);
  // Starts a daemon that was killed.
  absl::Status Restart(const std::string& name);
  bool IsRunning(const std::string& name) const;
  pid_t pid(const std::string& name) const { return daemons_.at(name).pid; }
  // Processes whose parent is this daemon: a worker's tasks.
  std::vector<pid_t> ChildrenOf(const std::string& name) const;

  // Submits a job; the status carries the coordinator's refusal.
  absl::StatusOr<std::string> Submit(const v1::JobSpec& spec);
  // Waits until a job's status satisfies `condition`, and returns it. DeadlineExceeded: the job
  // ended without, or the test's own time is over; names the last status.
  absl::StatusOr<v1::JobStatus> Await(const std::string& job_id,
                                      const std::function<bool(const v1::JobStatus&)>& condition);
  // Waits until a job ended.
  absl::StatusOr<v1::JobStatus> AwaitEnd(const std::string& job_id);
  // Return the weights of a job's last checkpoint, or of any other.
  absl::StatusOr<ExportedTensors> Export(const std::string& job_id);
  absl::StatusOr<ExportedTensors> Export(const v1::CheckpointRequest& checkpoint);
  // Returns the job's log so far, and the daemons' logs, for a failure message.
  std::string Diagnose(const std::string& job_id);

 private:
  struct Daemon {
    std::vector<std::string> command;
    pid_t pid = 0;
  };

  explicit ProcessCluster(Options options) : options_(std::move(options)) {}

  absl::Status StartAll();
  void AddDaemon(const std::string& name, std::vector<std::string> command);
  absl::Status Launch(const std::string& name);
  std::string LogOf(const std::string& name) const { return folder_ + "/" + name + ".log"; }

  const Options options_;
  std::string folder_;
  std::string coordinator_address_;
  std::map<std::string, Daemon> daemons_;
  std::unique_ptr<JobClient> jobs_;
};

}  // namespace muster

#endif  // MUSTER_TESTS_HARNESS_PROCESS_CLUSTER_H_
