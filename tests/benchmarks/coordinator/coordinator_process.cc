#include "tests/benchmarks/coordinator/coordinator_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cluster/spawn.h"
#include "client/compare/process_usage.h"
#include "common/base/status_macros.h"
#include "common/files/bytes_of_file.h"

namespace muster {
namespace {

constexpr char kCoordinator[] = "muster-coordinator";
constexpr absl::string_view kPage = "page on http://";

// Returns the bytes of a field of /proc/PID/status that is in kB.
uint64_t StatusBytes(pid_t pid, const std::string& field) {
  std::istringstream status(BytesOfFile(absl::StrCat("/proc/", pid, "/status")));
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(field, 0) == 0) {
      return std::strtoull(line.c_str() + field.size(), nullptr, 10) * 1024;
    }
  }
  return 0;
}

}  // namespace

CoordinatorProcess::~CoordinatorProcess() { Kill(); }

void CoordinatorProcess::Kill() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

std::string CoordinatorProcess::Log() const { return BytesOfFile(folder_ + "/log"); }

absl::Status CoordinatorProcess::Start() {
  MUSTER_ASSIGN_OR_RETURN(const std::string program, FindProgram(kCoordinator));
  const std::string address_file = folder_ + "/address";
  std::error_code error;
  std::filesystem::remove(address_file, error);
  const size_t log_before = Log().size();
  MUSTER_ASSIGN_OR_RETURN(
      pid_, Spawn({.command = {program, "--listen=" + address_, "--page-listen=" + page_,
                               "--data-dir=" + folder_ + "/data", "--max-jobs=2000",
                               "--address-file=" + address_file, "--end-with-parent"},
                   .output_file = folder_ + "/log"}));
  const absl::Time give_up = absl::Now() + absl::Minutes(1);
  std::string address;
  while (address.empty()) {
    const bool ended = waitpid(pid_, nullptr, WNOHANG) == pid_;
    if (ended) pid_ = 0;
    if (ended || absl::Now() > give_up) {
      return absl::UnavailableError(
          absl::StrCat("muster-coordinator does not listen; it wrote: ", Log()));
    }
    absl::SleepFor(absl::Milliseconds(2));
    address = std::string(absl::StripAsciiWhitespace(BytesOfFile(address_file)));
  }
  address_ = address;
  // The page's address comes before the other.
  const std::string log = Log().substr(log_before);
  const size_t at = log.find(std::string(kPage));
  if (at == std::string::npos) {
    return absl::UnavailableError(absl::StrCat("muster-coordinator serves no page: ", log));
  }
  const size_t begin = at + kPage.size();
  page_ = log.substr(begin, log.find('/', begin) - begin);
  return absl::OkStatus();
}

CoordinatorProcess::Usage CoordinatorProcess::ReadUsage() const {
  Usage usage = {.resident_bytes = StatusBytes(pid_, "VmRSS:"),
                 .peak_bytes = StatusBytes(pid_, "VmHWM:")};
  for (const ChildUsage& child : UsageOfChildren(getpid(), kCoordinator)) {
    if (child.pid == pid_) usage.cpu_seconds = child.cpu_seconds;
  }
  return usage;
}

}  // namespace muster
