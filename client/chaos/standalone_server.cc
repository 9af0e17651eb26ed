#include "client/chaos/standalone_server.h"

#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cluster/spawn.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

constexpr absl::Duration kStartPatience = absl::Seconds(60);
constexpr absl::Duration kListenPoll = absl::Milliseconds(5);

std::string Contents(const std::string& path, uint64_t offset) {
  std::ifstream file(path);
  file.seekg(static_cast<std::streamoff>(offset));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

StandaloneServer::~StandaloneServer() { Kill(); }

absl::Status StandaloneServer::Start() {
  const std::string address_file = folder_ + "/address";
  std::error_code ignored;
  std::filesystem::remove(address_file, ignored);
  const auto size = std::filesystem::file_size(log(), ignored);
  const uint64_t log_before = ignored ? 0 : size;
  MUSTER_ASSIGN_OR_RETURN(
      pid_,
      Spawn({.command = {program_, "--standalone", "--listen=127.0.0.1:0", "--data-dir=" + data(),
                         "--address-file=" + address_file, "--end-with-parent"},
             .output_file = log()}));
  const absl::Time until = absl::Now() + kStartPatience;
  while (true) {
    const std::string address = Contents(address_file, 0);
    if (!address.empty()) {
      absl::MutexLock lock(&mutex_);
      address_ = std::string(address, 0, address.find('\n'));
      return absl::OkStatus();
    }
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = 0;
      const std::string said = Contents(log(), log_before);
      if (WIFSIGNALED(status)) {
        return absl::InternalError(
            absl::StrCat("the server crashed with signal ", WTERMSIG(status), ": ", said));
      }
      return absl::FailedPreconditionError(said);
    }
    if (absl::Now() > until) {
      Kill();
      return absl::DeadlineExceededError(absl::StrCat("the server did not listen within ",
                                                      absl::FormatDuration(kStartPatience),
                                                      "; its log is ", log()));
    }
    absl::SleepFor(kListenPoll);
  }
}

void StandaloneServer::Kill() {
  if (pid_ == 0) return;
  {
    absl::MutexLock lock(&mutex_);
    address_.clear();
  }
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

absl::StatusOr<std::string> StandaloneServer::Address(absl::Duration patience) {
  absl::MutexLock lock(&mutex_);
  const auto runs = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !address_.empty(); };
  if (!mutex_.AwaitWithTimeout(absl::Condition(&runs), patience)) {
    return absl::DeadlineExceededError("the server did not come back");
  }
  return address_;
}

}  // namespace muster
