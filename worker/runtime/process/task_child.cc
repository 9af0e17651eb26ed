#include "worker/runtime/process/task_child.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "common/base/catch_out_of_memory.h"
#include "common/base/clock.h"
#include "common/base/lost_state.h"
#include "common/base/machine/usable_resources.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/local_storage.h"
#include "common/files/file_roots.h"
#include "common/rpc/parameter_service/data_channel_client.h"
#include "common/rpc/parameter_service/parameter_client.h"
#include "common/rpc/retry.h"
#include "common/text/utf8.h"
#include "common/trace/send_trace.h"
#include "common/trace/trace_recorder.h"
#include "common/trace/trace_scope.h"
#include "common/trace/trace_sender.h"
#include "common/transport/data_channel/channel_io.h"
#include "common/transport/shared_memory/registered_memory.h"
#include "proto/cluster_service.pb.h"
#include "proto/task_service.pb.h"
#include "proto/trace.pb.h"
#include "worker/nn/diverged_error.h"
#include "worker/runtime/coordinator_client/grpc_coordinator_client.h"
#include "worker/runtime/coordinator_client/process_usage.h"
#include "worker/runtime/process/collective_flags.h"
#include "worker/runtime/process/framed_message.h"
#include "worker/runtime/process/plan_watch.h"
#include "worker/runtime/process/task_process.h"
#include "worker/runtime/program/process_tree.h"
#include "worker/runtime/program/program_task.h"
#include "worker/runtime/task/device_training.h"
#include "worker/runtime/task/task.h"

namespace muster {
namespace {

constexpr int kOrphaned = 3;
// Most bytes of an error in the job's status; the log has the whole error.
constexpr size_t kMostMessageBytes = 16 << 10;

// Sanitizers take memory that no plan includes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Ends the process when the socket closes. Nothing is lost: servers have every contribution that
// was acknowledged.
void EndWithSocket(
    int socket, void (*before)() = [] {}) {
  pollfd poll_for = {.fd = socket, .events = POLLRDHUP, .revents = 0};
  while (true) {
    const int ready = poll(&poll_for, 1, -1);
    if (ready < 0 && errno == EINTR) continue;
    before();
    _exit(kOrphaned);
  }
}

// Returns once the daemon asks the task to end; ends the process, and those of its program, when
// the socket closes.
void AwaitStop(int socket) {
  char byte = 0;
  while (true) {
    const ssize_t got = read(socket, &byte, 1);
    if (got == 1 && byte == kStopByte) return;
    if (got < 0 && errno == EINTR) continue;
    KillDescendants();
    _exit(kOrphaned);
  }
}

// Ends the process as AwaitStop and EndWithSocket say. Until the program starts, nothing is lost by
// an end; from then on it is told, and given its time.
class ProgramStop {
 public:
  explicit ProgramStop(int socket) {
    std::thread([this, socket] {
      AwaitStop(socket);
      if (!started_) _exit(kOrphaned);
      stop_.Notify();
      EndWithSocket(socket, KillDescendants);
    }).detach();
  }

  void Started() { started_ = true; }
  const absl::Notification& stop() const { return stop_; }

 private:
  std::atomic<bool> started_{false};
  absl::Notification stop_;
};

ABSL_CONST_INIT absl::Mutex output_mutex(absl::kConstInit);
// True if a program's output ended within a line.
bool within_line ABSL_GUARDED_BY(output_mutex) = false;

void WriteOutput(absl::string_view text) {
  absl::MutexLock lock(&output_mutex);
  std::fwrite(text.data(), 1, text.size(), stderr);
  within_line = !text.empty() && text.back() != '\n';
}

void Log(absl::string_view line) {
  const std::string text = absl::StrCat(
      absl::FormatTime("%H:%M:%E3S", absl::Now(), absl::LocalTimeZone()), " ", line, "\n");
  absl::MutexLock lock(&output_mutex);
  if (within_line) std::fputc('\n', stderr);
  std::fwrite(text.data(), 1, text.size(), stderr);
  within_line = false;
}

v1::TaskIdentity IdentityOf(const v1::TaskOrder& order) {
  v1::TaskIdentity identity;
  identity.set_job_id(order.job_id());
  identity.set_generation(order.generation());
  identity.set_slot(order.slot());
  identity.set_incarnation(order.incarnation());
  return identity;
}

absl::Status RunOrder(const v1::TaskOrder& order, const TaskChildOptions& given) {
  const HostEndpointOptions& collectives = given.collectives;
  const RpcCredentials& credentials = given.credentials;
  // Before all else, since answers of servers that are recorded may come late.
  TraceRecorder recorder;
  RealClock clock;
  RealWaiter waiter;
  LocalStorage storage(DataRoots());
  const v1::TaskIdentity identity = IdentityOf(order);
  std::unique_ptr<CoordinatorClient> coordinator = MakeGrpcCoordinatorClient(
      order.coordinator_address(), credentials, identity, {}, waiter, Log);
  TraceSender traces(recorder, SendTaskTrace(order.coordinator_address(), credentials, identity),
                     {.ends = TraceSender::Ends::kWithItsSteps});
  const TraceBinding bound(&recorder, TraceTrack::kTrainer);
  TaskDependencies dependencies;
  dependencies.coordinator = coordinator.get();
  dependencies.traced = [&traces](const v1::TraceOrder& traced) { traces.Take(traced); };
  dependencies.clock = &clock;
  dependencies.waiter = &waiter;
  MUSTER_ASSIGN_OR_RETURN(
      const std::shared_ptr<ChannelIo> io,
      ChannelIo::Create({.threads = credentials.encrypted() ? TlsIoThreads() : 0}));
  if (collectives.shared_memory) {
    // The address range is as large as the memory; only touched pages take memory.
    auto registered = RegisteredMemory::Create(FindUsableResources().memory_bytes);
    if (registered.ok()) {
      dependencies.registered_memory = *std::move(registered);
    } else {
      Log(absl::StrCat("servers of this machine are sent copies: ",
                       std::string(registered.status().message())));
    }
  }
  dependencies.make_client = [&io, &given, &collectives, &credentials,
                              registered =
                                  dependencies.registered_memory](const std::string& address) {
    DataChannelClientOptions options;
    if (!collectives.shared_memory) options.shared_memory_bytes = 0;
    options.registered_memory = registered;
    options.opened = [address](const std::string& kind, const std::string& reason) {
      Log(absl::StrCat("exchanges with server ", address, " go by ", kind,
                       reason.empty() ? "" : absl::StrCat(" (", reason, ")")));
    };
    std::unique_ptr<ParameterClient> client =
        MakeDataChannelClient(address, credentials, io, std::move(options));
    return given.wrap_client == nullptr ? std::move(client) : given.wrap_client(std::move(client));
  };
  dependencies.storage = &storage;
  dependencies.offload_folder = given.offload_folder;
  dependencies.prepared_folder = given.prepared_folder;
  dependencies.prepared_bytes = given.prepared_bytes;
  dependencies.make_endpoint = [&given,
                                &order]() -> absl::StatusOr<std::unique_ptr<CollectiveEndpoint>> {
    HostEndpointOptions options = given.collectives;
    if (options.host.empty()) options.host = DefaultCollectivesHost(order.coordinator_address());
    MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<CollectiveEndpoint> endpoint,
                            MakeHostEndpoint(options));
    if (given.wrap_endpoint == nullptr) return endpoint;
    return given.wrap_endpoint(std::move(endpoint));
  };
  dependencies.wrap_model = given.wrap_model;
  std::unique_ptr<DeviceTraining> devices;
  if (given.make_devices != nullptr) {
    devices = given.make_devices(static_cast<int>(order.device()));
  }
  dependencies.devices = devices.get();
  dependencies.log = Log;
  return CatchOutOfMemory("the task", [&] { return RunTask(order, dependencies); });
}

absl::Status RunProgramOrder(const v1::TaskOrder& order, const TaskChildOptions& given,
                             ProgramStop& stop) {
  RealClock clock;
  RealWaiter waiter;
  const std::unique_ptr<CoordinatorClient> coordinator = MakeGrpcCoordinatorClient(
      order.coordinator_address(), given.credentials, IdentityOf(order), {}, waiter, Log);
  ProgramTaskDependencies dependencies;
  dependencies.coordinator = coordinator.get();
  dependencies.clock = &clock;
  dependencies.waiter = &waiter;
  dependencies.endpoint = given.collectives;
  if (dependencies.endpoint.host.empty()) {
    dependencies.endpoint.host = DefaultCollectivesHost(order.coordinator_address());
  }
  dependencies.tls = given.tls;
  dependencies.stop = &stop.stop();
  dependencies.starts = [&stop] { stop.Started(); };
  dependencies.log = Log;
  dependencies.output = WriteOutput;
  return CatchOutOfMemory("the task", [&] { return RunProgramTask(order, dependencies); });
}

v1::TaskReport::Loss ReportedLoss(const absl::Status& status) {
  if (IsDiverged(status)) return v1::TaskReport::DIVERGED;
  switch (LostStateOf(status)) {
    case LostState::kServerState:
      return v1::TaskReport::SERVER_STATE;
    case LostState::kCheckpoint:
      return v1::TaskReport::CHECKPOINT;
    case LostState::kNone:
      break;
  }
  return v1::TaskReport::LOSS_UNSPECIFIED;
}

absl::StatusOr<v1::TaskOrder> ReadOrder(int socket) {
  MUSTER_ASSIGN_OR_RETURN(std::string bytes, ReadFrame(socket, kMaxControlBytes));
  v1::TaskOrder order;
  if (!order.ParseFromString(bytes)) {
    return absl::DataLossError("control socket: not a TaskOrder");
  }
  return order;
}

// Shows the daemon signs of life, and sends it one result: the first. Thread-safe.
class ResultSender {
 public:
  explicit ResultSender(int socket) : socket_(socket) {}

  // Shows a sign of life each kSignPeriod, until there is a result.
  void ShowLife() {
    const uint64_t empty_frame = 0;
    while (true) {
      {
        absl::MutexLock lock(&mutex_);
        if (sent_) return;
        // A daemon that stands still reads none, and counts no time.
        send(socket_, &empty_frame, sizeof(empty_frame), MSG_NOSIGNAL | MSG_DONTWAIT);
      }
      absl::SleepFor(kSignPeriod);
    }
  }

  // Returns the exit status; nullopt if another thread has sent a result, and so ends the process.
  absl::optional<int> Send(const absl::StatusOr<v1::TaskOrder>& order, const absl::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      if (std::exchange(sent_, true)) return absl::nullopt;
    }
    if (!status.ok()) Log(absl::StrCat("the task ends: ", status.ToString()));
    v1::TaskReport report;
    if (order.ok()) {
      report.set_job_id(order->job_id());
      report.set_generation(order->generation());
      report.set_slot(order->slot());
      report.set_incarnation(order->incarnation());
    }
    report.set_state(v1::TaskReport::ENDED);
    report.set_code(static_cast<int>(status.code()));
    report.set_message(std::string(CutUtf8(ToUtf8(status.message()), kMostMessageBytes)));
    report.set_loss(ReportedLoss(status));
    std::fflush(nullptr);
    return WriteFrame(socket_, report.SerializeAsString()).ok() ? 0 : kOrphaned;
  }

 private:
  const int socket_;
  absl::Mutex mutex_;
  // Once true, only the result is written.
  bool sent_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

int RunTaskChild(int control_socket, const TaskChildOptions& options) {
  absl::StatusOr<v1::TaskOrder> order = ReadOrder(control_socket);
  // The thread that shows signs of life may outlive this call.
  ResultSender& result = *new ResultSender(control_socket);
  std::thread([&result] { result.ShowLife(); }).detach();
  if (!order.ok()) return *result.Send(order, order.status());
  if (order->spec().model().has_program()) {
    // The thread that looks at it lives as long as the process.
    ProgramStop& stop = *new ProgramStop(control_socket);
    return result.Send(order, RunProgramOrder(*order, options, stop)).value_or(kOrphaned);
  }
  std::thread([control_socket] { EndWithSocket(control_socket); }).detach();
  const PlanWatch watch(
      {.allowance = [&order] { return kSanitized ? TaskAllowance() : AllowanceOf(order->spec()); },
       .taken_bytes = ReadAnonymousBytes,
       .exceeded =
           [&](const absl::Status& status) {
             if (const auto exit_status = result.Send(order, status)) _exit(*exit_status);
           }});
  const absl::Status status = RunOrder(*order, options);
  if (const auto exit_status = result.Send(order, status)) return *exit_status;
  while (true) pause();
}

}  // namespace muster
