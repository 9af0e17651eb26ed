#include "tests/benchmarks/harness/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

extern char** environ;

namespace muster {
namespace {

struct Pipe {
  int read_end = -1;
  int write_end = -1;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::InternalError(absl::StrCat("cannot make a pipe: ", strerror(errno)));
  }
  return Pipe{ends[0], ends[1]};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    std::vector<std::string> arguments) {
  return StartProgram("/proc/self/exe", std::move(arguments));
}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::StartProgram(
    std::string program, std::vector<std::string> arguments) {
  auto input = MakePipe();
  auto output = MakePipe();
  if (!input.ok()) return input.status();
  if (!output.ok()) return output.status();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input->read_end, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output->write_end, STDOUT_FILENO);
  std::vector<char*> argv = {program.data()};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid;
  const int error = posix_spawnp(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(input->read_end);
  close(output->write_end);
  if (error != 0) {
    close(input->write_end);
    close(output->read_end);
    return absl::Status(error == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kInternal,
                        absl::StrCat("cannot start ", program, ": ", strerror(error)));
  }
  return std::unique_ptr<ChildProcess>(
      new ChildProcess(pid, fdopen(input->write_end, "w"), fdopen(output->read_end, "r")));
}

ChildProcess::~ChildProcess() {
  std::fclose(input_);
  waitpid(pid_, nullptr, 0);
  std::fclose(output_);
}

absl::Status ChildProcess::WriteLine(const std::string& line) {
  if (std::fprintf(input_, "%s\n", line.c_str()) < 0 || std::fflush(input_) != 0) {
    return absl::UnavailableError("a process of the benchmark has ended");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ChildProcess::ReadLine() {
  char* line = nullptr;
  size_t capacity = 0;
  const ssize_t length = getline(&line, &capacity, output_);
  std::string text(line == nullptr || length < 0 ? "" : line, std::max<ssize_t>(length, 0));
  std::free(line);
  if (length < 0) return absl::UnavailableError("a process of the benchmark has ended");
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace muster
