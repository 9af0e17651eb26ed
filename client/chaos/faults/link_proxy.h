#ifndef MUSTER_CLIENT_CHAOS_FAULTS_LINK_PROXY_H_
#define MUSTER_CLIENT_CHAOS_FAULTS_LINK_PROXY_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/chaos/faults/link_fault.h"
#include "common/transport/descriptor.h"
#include "common/transport/sockets/sockets.h"

namespace muster {

// Stands between processes that call a TCP address and the process that listens there. Callers are
// given the proxy's address, and the proxy passes on every byte, unless a fault is set. A thread of
// its own moves the bytes. Thread-safe.
class LinkProxy {
 public:
  struct Options {
    // Host to call for each connection.
    std::string target_host = "127.0.0.1";
    uint16_t target_port = 0;
    // Returns the name of the process that calls from this port of loopback. The proxy's thread
    // calls this once per connection.
    std::function<std::string(uint16_t port)> caller = [](uint16_t) { return std::string(); };
  };

  // Takes the listener to which callers connect. Unavailable: the system has no descriptor left.
  static absl::StatusOr<std::unique_ptr<LinkProxy>> Create(TcpListener listener, Options options);
  // Ends all connections.
  ~LinkProxy();
  LinkProxy(const LinkProxy&) = delete;
  LinkProxy& operator=(const LinkProxy&) = delete;

  // Port that the proxy listens on.
  uint16_t port() const { return listener_.port; }

  // Sets the fault of all connections of this caller, present and future. Returns once the fault is
  // in effect: no byte passes any more that the fault holds back.
  void SetFault(const std::string& caller, LinkFault fault) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Connection;

  LinkProxy(TcpListener listener, Options options, Descriptor wake);
  void Serve() ABSL_LOCKS_EXCLUDED(mutex_);
  // Does one turn of the thread: takes over new faults. Returns false if the proxy ends.
  bool TakeFaults() ABSL_LOCKS_EXCLUDED(mutex_);
  void Accept();
  LinkFault FaultOf(const std::string& caller) const;
  void Wake() const;

  const TcpListener listener_;
  const Options options_;
  const Descriptor wake_;

  // Used only by the thread.
  std::list<std::unique_ptr<Connection>> connections_;
  std::map<std::string, LinkFault> faults_;

  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, LinkFault> asked_ ABSL_GUARDED_BY(mutex_);
  // Number of SetFault calls, and of those that the thread has taken over.
  uint64_t asked_times_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t taken_times_ ABSL_GUARDED_BY(mutex_) = 0;

  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_FAULTS_LINK_PROXY_H_
