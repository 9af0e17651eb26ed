#ifndef MUSTER_TESTS_BENCHMARKS_COORDINATOR_COORDINATOR_PROCESS_H_
#define MUSTER_TESTS_BENCHMARKS_COORDINATOR_COORDINATOR_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster {

// A muster-coordinator of its own process, with a data folder that is empty at first. Not
// thread-safe.
class CoordinatorProcess {
 public:
  // `folder` is empty and outlives the object.
  explicit CoordinatorProcess(std::string folder) : folder_(std::move(folder)) {}
  // Kills it.
  ~CoordinatorProcess();

  // Starts it and waits until it listens; again on the same ports after Kill. UNAVAILABLE: it
  // ended, or did not listen in a minute; the message has its last words.
  absl::Status Start();
  // Ends it with SIGKILL.
  void Kill();

  // host:port of its rpcs and of its page.
  const std::string& address() const { return address_; }
  const std::string& page() const { return page_; }

  struct Usage {
    double cpu_seconds = 0;
    uint64_t resident_bytes = 0;
    uint64_t peak_bytes = 0;
  };
  Usage ReadUsage() const;

 private:
  std::string Log() const;

  const std::string folder_;
  pid_t pid_ = 0;
  std::string address_ = "127.0.0.1:0";
  std::string page_ = "127.0.0.1:0";
};

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_COORDINATOR_COORDINATOR_PROCESS_H_
