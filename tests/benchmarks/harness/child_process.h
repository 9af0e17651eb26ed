#ifndef MUSTER_TESTS_BENCHMARKS_HARNESS_CHILD_PROCESS_H_
#define MUSTER_TESTS_BENCHMARKS_HARNESS_CHILD_PROCESS_H_

#include <sys/types.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster {

// This very program again, with other arguments, or another one, spoken to in lines over its
// standard input and output. It is to end when its input does, or by itself. Not thread-safe.
class ChildProcess {
 public:
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(std::vector<std::string> arguments);

  // `program`: a path, or a name to look for in PATH. NotFound: there is no such program.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> StartProgram(
      std::string program, std::vector<std::string> arguments);

  // Closes the child's input and waits for its end.
  ~ChildProcess();

  pid_t pid() const { return pid_; }

  absl::Status WriteLine(const std::string& line);
  // UNAVAILABLE: the child has ended.
  absl::StatusOr<std::string> ReadLine();

 private:
  ChildProcess(pid_t pid, FILE* input, FILE* output) : pid_(pid), input_(input), output_(output) {}

  const pid_t pid_;
  FILE* const input_;
  FILE* const output_;
};

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_HARNESS_CHILD_PROCESS_H_
