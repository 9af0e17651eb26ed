#ifndef MUSTER_CLIENT_CHAOS_STANDALONE_SERVER_H_
#define MUSTER_CLIENT_CHAOS_STANDALONE_SERVER_H_

#include <sys/types.h>

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace muster {

// A muster-server process of our own, without a coordinator, that is killed and restarted on the
// same data folder. One thread calls Start and Kill; any thread may call Address.
class StandaloneServer {
 public:
  // `folder`, which must exist, gets the server's log and, in "data", its data. `program`: path of
  // muster-server.
  StandaloneServer(std::string program, std::string folder)
      : program_(std::move(program)), folder_(std::move(folder)) {}
  // Kills the server if it runs.
  ~StandaloneServer();

  // Starts the server and waits until it listens. FailedPrecondition: the server ended instead; the
  // error has its output. REQUIRES: the server does not run.
  absl::Status Start();
  // Kills the server by SIGKILL, if it runs.
  void Kill();
  bool running() const { return pid_ != 0; }

  std::string data() const { return folder_ + "/data"; }
  std::string log() const { return folder_ + "/server.log"; }

  // Returns the address that the server listens on; blocks while the server does not run.
  // DeadlineExceeded: `patience` ran out.
  absl::StatusOr<std::string> Address(absl::Duration patience) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const std::string program_;
  const std::string folder_;
  pid_t pid_ = 0;
  absl::Mutex mutex_;
  // Empty while it does not run.
  std::string address_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_STANDALONE_SERVER_H_
