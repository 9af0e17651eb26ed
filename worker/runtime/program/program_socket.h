#ifndef MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_SOCKET_H_
#define MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_SOCKET_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace muster {

// A Unix socket at which a task's program asks for things: lines of text, each answered by one, in
// order (docs/programs.md). Each connection has a thread of its own, so a call that waits holds up
// no other. Thread-safe.
class ProgramSocket {
 public:
  // A line of more bytes ends its connection.
  static constexpr size_t kMostLineBytes = 1 << 20;
  // Connections at once; further ones wait to be accepted.
  static constexpr size_t kMostConnections = 64;

  // Listens at `path`. `answer` returns the line that answers a line, both without the line break;
  // it may block, and is called by several threads. Errors are the system's, with the path.
  static absl::StatusOr<std::unique_ptr<ProgramSocket>> Listen(
      const std::string& path, std::function<std::string(absl::string_view line)> answer);
  // Closes all connections, and waits for calls under way.
  ~ProgramSocket();

  ProgramSocket(const ProgramSocket&) = delete;
  ProgramSocket& operator=(const ProgramSocket&) = delete;

 private:
  ProgramSocket(int listener, std::function<std::string(absl::string_view)> answer);

  void Accept();
  void Serve(int connection);
  // Joins the threads of connections that are over.
  void JoinEnded();

  const int listener_;
  const std::function<std::string(absl::string_view)> answer_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Threads by descriptor of their connection; those whose connection is over are in `ended_`.
  std::map<int, std::thread> serving_ ABSL_GUARDED_BY(mutex_);
  std::map<int, std::thread> ended_ ABSL_GUARDED_BY(mutex_);
  std::thread acceptor_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_SOCKET_H_
