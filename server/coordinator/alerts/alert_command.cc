#include "server/coordinator/alerts/alert_command.h"

#include <fcntl.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/text/utf8.h"
#include "common/transport/descriptor.h"

namespace muster {
namespace {

// Bytes of an alert's text: the environment of a process has a limit.
constexpr size_t kMostTextBytes = 16 << 10;
// Time between looks at whether the command has ended.
constexpr absl::Duration kLook = absl::Milliseconds(20);

using Fields = std::vector<std::pair<std::string, std::string>>;

// Returns the alert's fields by their names in the environment, all of them UTF-8 without NUL.
Fields FieldsOf(const JobAlert& alert) {
  Fields fields = {{"MUSTER_ALERT", std::string(NameOf(alert.kind))},
                   {"MUSTER_JOB", alert.job_id},
                   {"MUSTER_JOB_NAME", alert.name},
                   {"MUSTER_JOB_OWNER", alert.owner},
                   {"MUSTER_STEP", absl::StrCat(alert.step)},
                   {"MUSTER_ALERT_TEXT", alert.text}};
  for (auto& [name, value] : fields) {
    value = std::string(CutUtf8(ToUtf8(value), kMostTextBytes));
    std::replace(value.begin(), value.end(), '\0', ' ');
  }
  return fields;
}

// Returns the fields as one JSON object, named in small letters without `MUSTER_`.
std::string JsonOf(const JobAlert& alert, const Fields& fields) {
  google::protobuf::Struct object;
  constexpr const char* kNames[] = {"alert", "job", "name", "owner", "step", "text"};
  for (size_t i = 0; i < fields.size(); ++i) {
    google::protobuf::Value& value = (*object.mutable_fields())[kNames[i]];
    if (fields[i].first == "MUSTER_STEP") {
      value.set_number_value(static_cast<double>(alert.step));
    } else {
      value.set_string_value(fields[i].second);
    }
  }
  std::string json;
  // All of it is UTF-8 and finite, so it has a text.
  const bool has_text = google::protobuf::util::MessageToJsonString(object, &json).ok();
  return has_text ? json + "\n" : "";
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Returns a descriptor from which a process reads `text`.
Descriptor FileWith(const std::string& text) {
  Descriptor file(memfd_create("muster-alert", MFD_CLOEXEC));
  if (file.get() < 0 || write(file.get(), text.data(), text.size()) < 0) return Descriptor(-1);
  lseek(file.get(), 0, SEEK_SET);
  return file;
}

}  // namespace

AlertCommand::AlertCommand(Options options)
    : options_(std::move(options)), thread_([this] { Run(); }) {}

AlertCommand::~AlertCommand() {
  {
    absl::MutexLock lock(&mutex_);
    end_at_ = RealClock().Monotonic() + options_.last;
  }
  thread_.join();
}

void AlertCommand::Send(JobAlert alert) {
  {
    absl::MutexLock lock(&mutex_);
    if (waiting_.size() < kMostWaiting) return waiting_.push_back(std::move(alert));
  }
  options_.log(absl::StrCat("the alert that job ", alert.job_id, " has ", NameOf(alert.kind),
                            " is dropped: ", kMostWaiting, " others wait for --alert-command"));
}

bool AlertCommand::ReadyLocked() const {
  return !waiting_.empty() || end_at_ < absl::InfiniteDuration();
}

void AlertCommand::Run() {
  while (true) {
    JobAlert alert;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &AlertCommand::ReadyLocked));
      if (waiting_.empty()) return;
      alert = std::move(waiting_.front());
      waiting_.pop_front();
    }
    if (const std::string why = Tell(alert); !why.empty()) {
      options_.log(absl::StrCat("--alert-command did not tell that job ", alert.job_id, " has ",
                                NameOf(alert.kind), ": ", why));
    }
  }
}

std::string AlertCommand::Tell(const JobAlert& alert) {
  const Fields fields = FieldsOf(alert);
  std::vector<std::string> environment;
  for (const auto& [name, value] : fields) environment.push_back(absl::StrCat(name, "=", value));
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!absl::StartsWith(*entry, "MUSTER_ALERT")) environment.push_back(*entry);
  }
  std::vector<std::string> arguments = {"/bin/sh", "-c", options_.command};
  const Descriptor input = FileWith(JsonOf(alert, fields));

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (input.get() >= 0) posix_spawn_file_actions_adddup2(&actions, input.get(), STDIN_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, arguments[0].c_str(), &actions, &attributes,
                                Pointers(arguments).data(), Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return absl::StrCat("cannot start /bin/sh: ", std::strerror(error));

  const RealClock clock;
  const absl::Duration started = clock.Monotonic();
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    absl::Duration end_at = started + options_.timeout;
    {
      absl::MutexLock lock(&mutex_);
      end_at = std::min(end_at, end_at_);
    }
    if (clock.Monotonic() >= end_at) {
      kill(-pid, SIGKILL);
      while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
      }
      return absl::StrCat("it had not ended after ",
                          absl::FormatDuration(absl::Trunc(clock.Monotonic() - started, kLook)),
                          ", and was killed");
    }
    absl::SleepFor(kLook);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  return WIFEXITED(status) ? absl::StrCat("it ended with status ", WEXITSTATUS(status))
                           : absl::StrCat("it was ended by signal ", WTERMSIG(status));
}

}  // namespace muster
