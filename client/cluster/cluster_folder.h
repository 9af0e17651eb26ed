#ifndef MUSTER_CLIENT_CLUSTER_CLUSTER_FOLDER_H_
#define MUSTER_CLIENT_CLUSTER_CLUSTER_FOLDER_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/tls_files.h"

namespace muster {

// What a cluster on this machine leaves for the commands that use it.
struct LocalCluster {
  std::string coordinator_address;
  pid_t supervisor_pid = 0;
  int servers = 0;
  int workers = 0;
  // Those with which it was started, for the commands too; their paths are absolute.
  TlsFiles tls;
};

// The data folder of a cluster on this machine (`muster up`): who runs it, where it listens, and
// where each daemon keeps its data and log. The supervisor holds a file lock as long as it lives,
// so a pid is never mistaken.
class ClusterFolder {
 public:
  explicit ClusterFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string DataOf(const std::string& daemon) const;
  std::string LogOf(const std::string& daemon) const;
  std::string CheckpointRoot() const;

  // Makes the folders. An error names what could not be made.
  absl::Status Prepare() const;

  // Holds the lock until destroyed.
  class Lock {
   public:
    explicit Lock(int fd) : fd_(fd) {}
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

    // Leaves it to the end of the process: who waits for the lock then waits for the process too.
    void HoldToExit() { fd_ = -1; }

   private:
    int fd_;
  };
  // AlreadyExists: a supervisor runs here.
  absl::StatusOr<std::unique_ptr<Lock>> TakeLock() const;
  bool IsRunning() const;
  // DeadlineExceeded: the supervisor still runs after `patience`.
  absl::Status AwaitStop(absl::Duration patience) const;

  absl::Status Write(const LocalCluster& cluster) const;
  // Removes what Write left.
  void Forget() const;
  // NotFound: no cluster was started here. Unavailable: it does not run (any more).
  absl::StatusOr<LocalCluster> Read() const;

 private:
  std::string path_;
};

// The folder of the cluster that was started last by this user, or empty.
std::string CurrentClusterFolder();
absl::Status SetCurrentClusterFolder(const std::string& path);

}  // namespace muster

#endif  // MUSTER_CLIENT_CLUSTER_CLUSTER_FOLDER_H_
