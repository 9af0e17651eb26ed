#ifndef MUSTER_CLIENT_CLUSTER_CLUSTER_FOLDER_H_
#define MUSTER_CLIENT_CLUSTER_CLUSTER_FOLDER_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/tls_files.h"

namespace muster {

// Record of a cluster on this machine, which commands read.
struct LocalCluster {
  std::string coordinator_address;
  // URL of the coordinator's page; empty: it serves none.
  std::string page;
  pid_t supervisor_pid = 0;
  int servers = 0;
  int workers = 0;
  // TLS files that the cluster was started with, also for commands. Their paths are absolute.
  TlsFiles tls;
};

// Ports that the coordinator and its page had last; 0: none.
struct ClusterPorts {
  int coordinator = 0;
  int page = 0;
};

// The data folder of a cluster on this machine (`muster up`): the supervisor's pid, the
// coordinator's address, and each daemon's data and log. The supervisor holds a file lock as long
// as it lives, so a pid is never mistaken for another process's.
class ClusterFolder {
 public:
  explicit ClusterFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string DataOf(const std::string& daemon) const;
  std::string LogOf(const std::string& daemon) const;
  std::string CheckpointRoot() const;
  // Returns the file with the token that jobs that run programs are submitted with. It is there if
  // the cluster takes such jobs.
  std::string ProgramTokenFile() const;
  // Writes that file with a new token, for this user alone.
  absl::Status WriteProgramToken() const;

  // Creates the folders. An error names what could not be created.
  absl::Status Prepare() const;

  // Holds the lock until destroyed.
  class Lock {
   public:
    explicit Lock(int fd) : fd_(fd) {}
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

    // Keeps the lock until the process ends, so that whoever waits for the lock waits for the
    // process, too.
    void HoldToExit() { fd_ = -1; }

   private:
    int fd_;
  };
  // AlreadyExists: a supervisor runs in this folder.
  absl::StatusOr<std::unique_ptr<Lock>> TakeLock() const;
  bool IsRunning() const;
  // Blocks until the supervisor has ended. DeadlineExceeded: it still runs after `patience`.
  absl::Status AwaitStop(absl::Duration patience) const;

  absl::Status Write(const LocalCluster& cluster) const;
  // Removes what Write wrote.
  void Forget() const;
  // NotFound: no cluster was started in this folder. Unavailable: the cluster is not running.
  absl::StatusOr<LocalCluster> Read() const;

  // Remembers ports for the next cluster in this folder, which may be there in vain.
  absl::Status WritePorts(const ClusterPorts& ports) const;
  ClusterPorts ReadPorts() const;

  // Remembers the command that the coordinator runs for alerts, also for the next cluster in this
  // folder; empty: none.
  absl::Status WriteAlertCommand(const std::string& command) const;
  std::string ReadAlertCommand() const;

 private:
  std::string path_;
};

// Returns the folder of the cluster that this user started last, or "".
std::string CurrentClusterFolder();
// Makes it the folder of the cluster in `path`, and notes that cluster for RunningClusters.
absl::Status SetCurrentClusterFolder(const std::string& path);
// Returns the folders of the clusters that this user started here and that still run, in order of
// their names.
std::vector<std::string> RunningClusters();

}  // namespace muster

#endif  // MUSTER_CLIENT_CLUSTER_CLUSTER_FOLDER_H_
