#include "client/cluster/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cluster/unnamed_file.h"
#include "common/base/status_macros.h"

namespace muster {

absl::StatusOr<pid_t> Spawn(const SpawnOptions& options) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, options.output_file.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
  if (options.detached) flags |= POSIX_SPAWN_SETSID;
  posix_spawnattr_setflags(&attributes, flags);

  std::vector<char*> argv;
  for (const std::string& argument : options.command) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error == ENOENT) {
    return absl::NotFoundError(absl::StrCat("cannot start ", options.command[0], " with output to ",
                                            options.output_file, ": one of them does not exist"));
  }
  if (error != 0) {
    return absl::InternalError(
        absl::StrCat("cannot start ", options.command[0], ": ", strerror(error)));
  }
  return pid;
}

absl::StatusOr<ProgramEnd> RunProgram(const std::vector<std::string>& command) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<UnnamedFile> output,
                          UnnamedFile::Create("a program's output"));
  MUSTER_ASSIGN_OR_RETURN(const pid_t pid, Spawn({command, output->path()}));
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return absl::ErrnoToStatus(errno, "waiting for " + command[0]);
  }
  ProgramEnd end;
  end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  MUSTER_ASSIGN_OR_RETURN(end.output, output->Read());
  return end;
}

absl::Status Exec(std::vector<std::string> command) {
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  return absl::InternalError(absl::StrCat("cannot run ", command[0], ": ", strerror(errno)));
}

std::string ExecutableFolder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

absl::StatusOr<std::string> FindProgram(const std::string& name) {
  const std::filesystem::path here = ExecutableFolder();
  const std::vector<std::string> places = {
      here / name,
      here / "../server" / name,
      here / "../server/coordinator" / name,
      here / "../worker/runtime" / name,
      here / "../worker/generate" / name,
      here / "../worker/predict" / name,
      here / "../tests/benchmarks" / name,
      here / "../../server/coordinator" / name,
      here / "../../client" / name,
  };
  for (const std::string& place : places) {
    if (access(place.c_str(), X_OK) == 0) {
      return std::filesystem::path(place).lexically_normal().string();
    }
  }
  return absl::NotFoundError(absl::StrCat("cannot find the program ", name,
                                          " in any of these places: ", absl::StrJoin(places, ", "),
                                          "; `./muster` builds it, or install it beside `muster`"));
}

}  // namespace muster
