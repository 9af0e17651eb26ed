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

// A muster-server process of our own, without a coordinator, that is killed and started again over
// the same data folder. Start and Kill by one thread; address() by any.
class StandaloneServer {
 public:
  // `folder`, which must be there, gets the server's data, in "data", and its log. `program`: the
  // path of muster-server.
  StandaloneServer(std::string program, std::string folder)
      : program_(std::move(program)), folder_(std::move(folder)) {}
  // Kills it if it runs.
  ~StandaloneServer();

  // Starts it and waits until it listens. FailedPrecondition: it ended instead; with what it said.
  // REQUIRES: it does not run.
  absl::Status Start();
  // SIGKILL. OK when it does not run.
  void Kill();
  bool running() const { return pid_ != 0; }

  std::string data() const { return folder_ + "/data"; }
  std::string log() const { return folder_ + "/server.log"; }

  // Where it listens; blocks while it does not run. DeadlineExceeded.
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
