#include "client/cluster/cluster_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/files/bytes_of_file.h"
#include "common/text/dump_json.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kLockPoll = absl::Milliseconds(20);

// Returns the path of a file that is about all clusters of this user.
std::string UsersFile(absl::string_view name) {
  const char* home = std::getenv("HOME");
  return absl::StrCat(home == nullptr ? "/tmp" : home, "/.muster/", name);
}

// The folder of the cluster that was started last; folders of clusters that were running then.
constexpr char kCurrent[] = "current";
constexpr char kClusters[] = "clusters";

// Writes a file whole, in place of an old one.
absl::Status WriteWhole(const fs::path& path, absl::string_view text) {
  const fs::path partial = path.string() + ".partial";
  {
    std::ofstream file(partial);
    file << text;
    if (!file.flush()) return absl::InternalError(absl::StrCat("cannot write ", partial.string()));
  }
  std::error_code error;
  fs::rename(partial, path, error);
  if (error) return absl::InternalError(absl::StrCat("cannot write ", path.string()));
  return absl::OkStatus();
}

// Returns 64 bits of the system's random source.
uint64_t SecretBits() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

}  // namespace

std::string ClusterFolder::DataOf(const std::string& daemon) const {
  return (fs::path(path_) / daemon).string();
}

std::string ClusterFolder::LogOf(const std::string& daemon) const {
  return (fs::path(path_) / "logs" / (daemon + ".log")).string();
}

std::string ClusterFolder::CheckpointRoot() const {
  return (fs::path(path_) / "checkpoints").string();
}

std::string ClusterFolder::ProgramTokenFile() const {
  return (fs::path(path_) / "program.token").string();
}

absl::Status ClusterFolder::WriteProgramToken() const {
  const std::string path = ProgramTokenFile();
  const std::string token = absl::StrCat(absl::Hex(SecretBits(), absl::kZeroPad16),
                                         absl::Hex(SecretBits(), absl::kZeroPad16), "\n");
  unlink(path.c_str());
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  const bool written =
      fd >= 0 && write(fd, token.data(), token.size()) == static_cast<ssize_t>(token.size());
  const int error = errno;
  if (fd >= 0) close(fd);
  if (written) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("cannot write ", path, ": ", std::strerror(error)));
}

absl::Status ClusterFolder::Prepare() const {
  for (const std::string& folder : {(fs::path(path_) / "logs").string(), CheckpointRoot()}) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) {
      return absl::FailedPreconditionError(absl::StrCat(
          "cannot make ", folder, ": ", error.message(), "; choose another --data-dir"));
    }
  }
  return absl::OkStatus();
}

ClusterFolder::Lock::~Lock() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<std::unique_ptr<ClusterFolder::Lock>> ClusterFolder::TakeLock() const {
  const std::string path = (fs::path(path_) / "lock").string();
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return absl::FailedPreconditionError(absl::StrCat("cannot open ", path, ": ", strerror(errno)));
  }
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    close(fd);
    return absl::AlreadyExistsError(absl::StrCat(
        "a cluster runs in ", path_, "; `muster down --data-dir ", path_, "` stops it"));
  }
  return std::make_unique<Lock>(fd);
}

bool ClusterFolder::IsRunning() const {
  return fs::exists(path_) && absl::IsAlreadyExists(TakeLock().status());
}

absl::Status ClusterFolder::AwaitStop(absl::Duration patience) const {
  const absl::Duration until = RealClock().Monotonic() + patience;
  while (IsRunning()) {
    if (RealClock().Monotonic() > until) {
      return absl::DeadlineExceededError(absl::StrCat(
          "the cluster in ", path_, " still runs after ", absl::FormatDuration(patience)));
    }
    absl::SleepFor(kLockPoll);
  }
  return absl::OkStatus();
}

absl::Status ClusterFolder::Write(const LocalCluster& cluster) const {
  nlohmann::json json = {{"coordinator", cluster.coordinator_address},
                         {"page", cluster.page},
                         {"supervisor_pid", cluster.supervisor_pid},
                         {"servers", cluster.servers},
                         {"workers", cluster.workers}};
  if (!cluster.tls.None()) {
    json["tls"] = {{"authority", cluster.tls.authority},
                   {"certificate", cluster.tls.certificate},
                   {"key", cluster.tls.key}};
  }
  return WriteWhole(fs::path(path_) / "cluster.json", absl::StrCat(DumpJson(json, 2), "\n"));
}

void ClusterFolder::Forget() const {
  std::error_code ignored;
  fs::remove(fs::path(path_) / "cluster.json", ignored);
}

absl::StatusOr<LocalCluster> ClusterFolder::Read() const {
  std::ifstream file(fs::path(path_) / "cluster.json");
  if (!file) {
    return absl::NotFoundError(absl::StrCat("no cluster has been started in ", path_,
                                            "; `muster up --data-dir ", path_, "` starts one"));
  }
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::DataLossError(
        absl::StrCat(path_, "/cluster.json is damaged; remove it and run `muster up`"));
  }
  if (!IsRunning()) {
    return absl::UnavailableError(absl::StrCat(
        "the cluster in ", path_, " is not running; `muster up --data-dir ", path_, "` starts it"));
  }
  LocalCluster cluster;
  cluster.coordinator_address = json.value("coordinator", "");
  cluster.page = json.value("page", "");
  cluster.supervisor_pid = json.value("supervisor_pid", 0);
  cluster.servers = json.value("servers", 0);
  cluster.workers = json.value("workers", 0);
  if (json.contains("tls")) {
    cluster.tls.authority = json["tls"].value("authority", "");
    cluster.tls.certificate = json["tls"].value("certificate", "");
    cluster.tls.key = json["tls"].value("key", "");
  }
  return cluster;
}

absl::Status ClusterFolder::WritePorts(const ClusterPorts& ports) const {
  const nlohmann::json json = {{"coordinator", ports.coordinator}, {"page", ports.page}};
  return WriteWhole(fs::path(path_) / "ports.json", absl::StrCat(DumpJson(json, 2), "\n"));
}

ClusterPorts ClusterFolder::ReadPorts() const {
  std::ifstream file(fs::path(path_) / "ports.json");
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  const auto port = [&json](const char* name) {
    const bool known = json.is_object() && json.contains(name) && json[name].is_number_integer();
    const int64_t port = known ? json[name].get<int64_t>() : 0;
    return port > 0 && port <= 65535 ? static_cast<int>(port) : 0;
  };
  return {.coordinator = port("coordinator"), .page = port("page")};
}

absl::Status ClusterFolder::WriteAlertCommand(const std::string& command) const {
  return WriteWhole(fs::path(path_) / "alert_command", command);
}

std::string ClusterFolder::ReadAlertCommand() const {
  return BytesOfFile(fs::path(path_) / "alert_command");
}

std::string CurrentClusterFolder() {
  std::ifstream file(UsersFile(kCurrent));
  std::string path;
  std::getline(file, path);
  return path;
}

absl::Status SetCurrentClusterFolder(const std::string& path) {
  const fs::path pointer = UsersFile(kCurrent);
  std::error_code error;
  fs::create_directories(pointer.parent_path(), error);
  std::ofstream file(pointer);
  file << path << "\n";
  if (!file.flush()) return absl::InternalError(absl::StrCat("cannot write ", pointer.string()));
  std::string clusters = absl::StrCat(path, "\n");
  for (const std::string& other : RunningClusters()) {
    if (other != path) absl::StrAppend(&clusters, other, "\n");
  }
  return WriteWhole(UsersFile(kClusters), clusters);
}

std::vector<std::string> RunningClusters() {
  std::set<std::string> running;
  std::ifstream file(UsersFile(kClusters));
  for (std::string path; std::getline(file, path);) {
    if (!path.empty() && ClusterFolder(path).IsRunning()) running.insert(path);
  }
  return {running.begin(), running.end()};
}

}  // namespace muster
