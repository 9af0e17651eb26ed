#include "worker/runtime/program/program_task.h"

#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <stop_token>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/base/lost_state.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/local_storage.h"
#include "common/checkpoint/manifest.h"
#include "common/files/file_error.h"
#include "common/job/job_road.h"
#include "common/text/format_bytes.h"
#include "common/text/printable.h"
#include "common/text/utf8.h"
#include "common/transport/sockets/sockets.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"
#include "proto/task_service.pb.h"
#include "worker/runtime/program/process_tree.h"
#include "worker/runtime/program/program_calls.h"
#include "worker/runtime/program/program_checkpoints.h"
#include "worker/runtime/program/program_output.h"
#include "worker/runtime/program/program_place.h"
#include "worker/runtime/program/program_process.h"
#include "worker/runtime/program/program_reporter.h"
#include "worker/runtime/program/program_socket.h"
#include "worker/runtime/program/shipped_folder.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// Time between looks at the program while it runs, and at what it uses.
constexpr absl::Duration kProgramLook = absl::Milliseconds(100);
constexpr absl::Duration kUsageLook = absl::Seconds(1);
// Bytes of the command's name that the log shows.
constexpr size_t kMostCommandShown = 200;

// A folder for what a task needs while its program runs, removed with all in it at the end.
class TaskFolder {
 public:
  static absl::StatusOr<std::unique_ptr<TaskFolder>> Create() {
    std::error_code error;
    std::string path = (fs::temp_directory_path(error) / "muster-task-XXXXXX").string();
    if (error || mkdtemp(path.data()) == nullptr) {
      return FileError("make a temporary folder", path, error ? error.value() : errno);
    }
    return std::unique_ptr<TaskFolder>(new TaskFolder(std::move(path)));
  }
  ~TaskFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TaskFolder(const TaskFolder&) = delete;
  TaskFolder& operator=(const TaskFolder&) = delete;

  // Makes a folder in this one, and returns its path.
  absl::StatusOr<std::string> Make(absl::string_view name) const {
    std::string folder = absl::StrCat(path_, "/", name);
    std::error_code error;
    fs::create_directory(folder, error);
    if (error) return FileError("make the folder", folder, error.value());
    return folder;
  }
  const std::string& path() const { return path_; }

 private:
  explicit TaskFolder(std::string path) : path_(std::move(path)) {}

  const std::string path_;
};

// Returns the command for the log, which more people read than the job: its arguments may be
// secret.
std::string Shown(const v1::ProgramSpec& spec) {
  const std::string& command = spec.command(0);
  const std::string shown = PrintableLine(CutUtf8(command, kMostCommandShown));
  return absl::StrCat(shown, command.size() > kMostCommandShown ? "…" : "", " with ",
                      spec.command_size() - 1, " arguments");
}

std::string NewToken() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&token, absl::Hex(random(), absl::kZeroPad8));
  return token;
}

// Returns the place of the program among the job's processes, once all are there.
absl::StatusOr<ProgramPlace> Meet(const v1::TaskOrder& order,
                                  const ProgramTaskDependencies& dependencies,
                                  v1::RendezvousReply& meeting) {
  const bool alone = order.spec().model().program().elastic();
  v1::ProgramEndpoint endpoint;
  endpoint.set_worker_id(order.worker_id());
  if (order.spec().compute().device() == v1::ComputeSpec::CUDA) {
    endpoint.set_device(order.device());
  }
  // Keeps the port until the program is about to start.
  TcpListener listener;
  if (order.slot() == 0 && !alone) {
    const HostEndpointOptions& given = dependencies.endpoint;
    MUSTER_ASSIGN_OR_RETURN(listener, ListenTcp(given.host, {given.first_port, given.last_port}));
    endpoint.set_host(given.advertised_host.empty() ? given.host : given.advertised_host);
    endpoint.set_port(listener.port);
  }
  v1::RendezvousRequest request;
  request.set_endpoint(endpoint.SerializeAsString());
  MUSTER_ASSIGN_OR_RETURN(meeting, dependencies.coordinator->Rendezvous(std::move(request)));
  if (alone) return PlaceAlone(order);
  return PlaceInRound(meeting, order);
}

// Shows the last checkpoint of the job, or the one that it began with, in the task's folder.
absl::Status Resume(const v1::TaskOrder& order, const v1::RendezvousReply& meeting,
                    const TaskFolder& folder, ProgramCalls::Facts& facts) {
  std::string checkpoint = order.restore_uri();
  facts.resume_step = order.start_clock();
  if (meeting.has_checkpoint_clock()) {
    facts.resume_step = meeting.checkpoint_clock();
    checkpoint = CheckpointFolder(order.checkpoint_root(), order.job_id(), facts.resume_step);
  }
  if (checkpoint.empty()) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(facts.resume_folder, folder.Make("resume"));
  // One slot reads all files for all.
  if (order.slot() == 0) MUSTER_RETURN_IF_ERROR(VerifyCheckpoint(LocalStorage(), checkpoint));
  return ShowCheckpoint(checkpoint, facts.resume_folder);
}

// Returns what a program needs to reach its servers: of the order all that is about them.
ProgramCalls::Servers ServersOf(const v1::TaskOrder& order, const v1::RendezvousReply& meeting,
                                const ProgramTaskDependencies& dependencies) {
  v1::TaskOrder told;
  told.set_job_id(order.job_id());
  told.set_generation(order.generation());
  told.set_slot(order.slot());
  told.set_incarnation(order.incarnation());
  *told.mutable_shard_map() = order.shard_map();
  told.mutable_spec()->set_workers(order.spec().workers());
  *told.mutable_spec()->mutable_update() = order.spec().update();
  told.set_restore_uri(order.restore_uri());
  told.set_restore_weights_only(order.restore_weights_only());
  told.set_start_clock(order.start_clock());
  told.set_checkpoint_root(order.checkpoint_root());
  told.set_expect_state(order.expect_state());
  ProgramCalls::Servers servers;
  servers.order = told.SerializeAsString();
  servers.begins =
      order.restore_uri().empty() && !order.expect_state() && !meeting.has_checkpoint_clock();
  servers.tls = dependencies.tls;
  servers.shard_map = [coordinator = dependencies.coordinator]() -> absl::StatusOr<std::string> {
    MUSTER_ASSIGN_OR_RETURN(const v1::ShardMap map,
                            coordinator->GetShardMap(0, absl::ZeroDuration()));
    return map.SerializeAsString();
  };
  return servers;
}

// A program from its start to its end.
class RunningProgram {
 public:
  RunningProgram(const v1::TaskOrder& order, const ProgramTaskDependencies& dependencies,
                 ProgramReporter& reporter, ProgramOutput& output)
      : spec_(order.spec().model().program()),
        dependencies_(dependencies),
        reporter_(reporter),
        output_(output) {}

  // Starts the program and blocks until it has ended. Returns what the task does.
  absl::Status Run(const ProgramCommand& command) {
    const Clock& clock = *dependencies_.clock;
    MUSTER_ASSIGN_OR_RETURN(process_,
                            ProgramProcess::Start(command, [this, &clock](absl::string_view text) {
                              output_.Add(text, clock.Monotonic());
                            }));
    dependencies_.log(absl::StrCat("the program runs as process ", process_->pid()));
    absl::optional<int> ended;
    while (!ended.has_value()) {
      ended = process_->Wait(kProgramLook);
      if (!ended.has_value()) Look();
    }
    process_->KillAll();
    output_.Finish();
    dependencies_.log(
        absl::StrCat("process ", process_->pid(), " of the program ", DescribeEnd(*ended)));
    if (!end_.ok()) return end_;
    if (*ended == 0) return absl::OkStatus();
    const std::string tail = output_.Tail();
    const std::string printed = ToUtf8(absl::StripTrailingAsciiWhitespace(tail));
    return absl::AbortedError(absl::StrCat(
        "the program ", DescribeEnd(*ended),
        printed.empty() ? ", and printed nothing" : "; the last that it printed:\n", printed));
  }

 private:
  // Sees whether the program must end, and what it uses.
  void Look() {
    const absl::Duration now = dependencies_.clock->Monotonic();
    if (end_.ok() && dependencies_.stop->HasBeenNotified()) {
      End(absl::CancelledError("the task was told to stop"));
    }
    if (end_.ok() && !reporter_.status().ok()) End(reporter_.status());
    if (!end_.ok() && now >= kill_at_) KillDescendants();
    if (now < next_usage_look_) return;
    next_usage_look_ = now + kUsageLook;
    LookAtUsage();
    if (spec_.report_within_seconds() > 0) LookAtSilence();
  }

  // Lets the program end within its grace.
  void End(absl::Status why) {
    end_ = std::move(why);
    kill_at_ = dependencies_.clock->Monotonic() + absl::Seconds(spec_.grace_seconds());
    dependencies_.log(absl::StrCat("the program gets SIGTERM, and ", spec_.grace_seconds(),
                                   " s to end: ", end_.message()));
    process_->Terminate();
  }

  void LookAtUsage() {
    const std::vector<pid_t> processes = FindDescendants();
    const TreeUsage usage = UsageOf(processes);
    peak_bytes_ = std::max(peak_bytes_, usage.bytes);
    reporter_.SetUsage(usage.cpu_seconds, peak_bytes_);
    if (usage.bytes <= spec_.memory_bytes() || !end_.ok()) return;
    // Pages that several processes share were counted in each.
    const uint64_t bytes = ProportionalBytes(processes);
    if (bytes > 0 && bytes <= spec_.memory_bytes()) return;
    end_ = absl::ResourceExhaustedError(absl::StrCat(
        "the program and the processes that it started take ",
        FormatBytes(bytes > 0 ? bytes : usage.bytes), " of memory; model.program.memory_bytes is ",
        FormatBytes(spec_.memory_bytes()), ": raise it, or take less"));
    kill_at_ = -absl::InfiniteDuration();
    KillDescendants();
  }

  void LookAtSilence() {
    const absl::Duration silent = reporter_.SilentFor();
    const bool is_silent = silent > absl::Seconds(spec_.report_within_seconds()) / 2;
    std::string text;
    if (is_silent) {
      text = absl::StrCat("its program reports nothing; its main thread ",
                          DescribeState(process_->pid()));
    }
    if (text == told_) return;
    told_ = text;
    reporter_.TellSilence(std::move(text));
  }

  const v1::ProgramSpec& spec_;
  const ProgramTaskDependencies& dependencies_;
  ProgramReporter& reporter_;
  ProgramOutput& output_;
  std::unique_ptr<ProgramProcess> process_;
  // Why the program must end, and when it is killed; OK: it need not.
  absl::Status end_;
  absl::Duration kill_at_ = absl::InfiniteDuration();
  absl::Duration next_usage_look_ = -absl::InfiniteDuration();
  uint64_t peak_bytes_ = 0;
  std::string told_;
};

}  // namespace

absl::Status RunProgramTask(const v1::TaskOrder& order,
                            const ProgramTaskDependencies& dependencies) {
  // The program's processes are in this process's group; what is sent to the group is for them.
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) signal(number, SIG_IGN);
  AdoptOrphans();
  const v1::ProgramSpec& spec = order.spec().model().program();
  // The other slots wait for this one where they meet.
  std::unique_ptr<ShippedFolder> shipped;
  if (!spec.shipped().empty()) {
    MUSTER_ASSIGN_OR_RETURN(shipped,
                            ShippedFolder::Take({.base = ShippedFoldersBase(),
                                                 .checkpoint_root = order.checkpoint_root(),
                                                 .job_id = order.job_id(),
                                                 .name = spec.shipped()}));
  }
  v1::RendezvousReply meeting;
  MUSTER_ASSIGN_OR_RETURN(const ProgramPlace place, Meet(order, dependencies, meeting));
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<TaskFolder> folder, TaskFolder::Create());

  ProgramCalls::Facts facts;
  facts.token = NewToken();
  facts.job_id = order.job_id();
  facts.worker_id = order.worker_id();
  facts.slot = order.slot();
  facts.rank = place.rank;
  facts.world_size = place.world_size;
  facts.restarts = RestartsOf(order);
  facts.endpoint = dependencies.endpoint;
  facts.round_secret = meeting.secret();
  if (NeedsServers(order.spec())) facts.servers = ServersOf(order, meeting, dependencies);
  MUSTER_RETURN_IF_ERROR(
      DataLossIs(Resume(order, meeting, *folder, facts), LostState::kCheckpoint));

  ProgramSurroundings surroundings;
  surroundings.socket = absl::StrCat(folder->path(), "/socket");
  surroundings.token = facts.token;
  MUSTER_ASSIGN_OR_RETURN(surroundings.temporary_folder, folder->Make("tmp"));
  if (const char* home = std::getenv("HOME"); home != nullptr) surroundings.home = home;
  ProgramCommand command;
  command.arguments.assign(spec.command().begin(), spec.command().end());
  command.environment = ProgramEnvironment(order, place, surroundings);
  command.working_folder = shipped != nullptr ? shipped->path() : spec.working_folder();
  if (command.working_folder.empty()) {
    MUSTER_ASSIGN_OR_RETURN(command.working_folder, folder->Make("work"));
  }
  MUSTER_ASSIGN_OR_RETURN(std::string root, LocalPath(order.checkpoint_root()));

  std::stop_source ended;
  ProgramReporter reporter(*dependencies.coordinator, *dependencies.clock, facts.resume_step,
                           dependencies.log);
  ProgramCheckpoints checkpoints({.root = std::move(root),
                                  .job_id = order.job_id(),
                                  .generation = order.generation(),
                                  .slot = order.slot()},
                                 *dependencies.coordinator);
  ProgramCalls calls(facts, reporter, checkpoints, ended.get_token());
  MUSTER_ASSIGN_OR_RETURN(
      std::unique_ptr<ProgramSocket> socket,
      ProgramSocket::Listen(surroundings.socket,
                            [&calls](absl::string_view line) { return calls.Answer(line); }));
  dependencies.log(absl::StrCat("slot ", order.slot(), " is rank ", place.rank, " of ",
                                place.world_size, "; starts ", Shown(spec)));
  ProgramOutput output({}, dependencies.output);
  dependencies.starts();
  const absl::Status status = RunningProgram(order, dependencies, reporter, output).Run(command);
  // Calls that still wait are of processes that are gone.
  ended.request_stop();
  dependencies.waiter->Stop();
  socket.reset();
  reporter.Finish();
  return status;
}

}  // namespace muster
