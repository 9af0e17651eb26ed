#include "client/cluster/job_client.h"

#include <grpcpp/grpcpp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cluster/exit_code.h"
#include "client/terminal/progress.h"
#include "common/base/clock.h"
#include "common/base/philox.h"
#include "common/base/status_macros.h"
#include "common/daemon/daemon.h"
#include "common/files/bytes_of_file.h"
#include "common/job/job_road.h"
#include "common/job/validation/name_validator.h"
#include "common/program/program_proof.h"
#include "common/rpc/channel.h"
#include "common/rpc/retry.h"
#include "common/rpc/rpc_status.h"
#include "common/text/message_utf8.h"
#include "common/text/printable.h"
#include "common/text/utf8.h"
#include "proto/job_service.grpc.pb.h"

namespace muster {
namespace {

// Some TiB from a disk.
constexpr absl::Duration kVerifyTimeout = absl::Hours(2);
// 256 MiB over a slow line.
constexpr absl::Duration kShipTimeout = absl::Minutes(10);
constexpr size_t kShipChunkBytes = 1 << 20;
constexpr size_t kPageJobs = 500;
// Jobs of one name that an error lists.
constexpr size_t kMostNamed = 10;

// Adds a message of a stream of series to `read`. `places` holds each series' position there.
void AddChunk(v1::MetricsChunk& chunk, absl::flat_hash_map<std::string, int>& places,
              v1::MetricsChunk& read) {
  if (chunk.marks_size() > 0) read.mutable_marks()->Swap(chunk.mutable_marks());
  for (v1::Series& added : *chunk.mutable_series()) {
    const auto [place, first] = places.try_emplace(added.name(), read.series_size());
    v1::Series& series = first ? *read.add_series() : *read.mutable_series(place->second);
    series.set_name(added.name());
    auto& points = *series.mutable_points();
    while (!points.empty() && points.rbegin()->last_step() >= added.replaces_from()) {
      points.RemoveLast();
    }
    points.MergeFrom(added.points());
  }
}

// Returns the name of the user who runs this process, or nothing if the machine does not know it or
// a job cannot have it.
std::string UserName() {
  passwd user = {};
  passwd* found = nullptr;
  std::vector<char> strings(16 << 10);
  const int error = getpwuid_r(geteuid(), &user, strings.data(), strings.size(), &found);
  if (error != 0 || found == nullptr) return "";
  v1::JobSpec owned;
  owned.set_owner(user.pw_name);
  return IsUtf8(owned.owner()) && ValidateNames(owned).ok() ? owned.owner() : "";
}

// Returns the text of a file with a token, without white space around it.
absl::StatusOr<std::string> ReadToken(const std::string& path) {
  constexpr absl::string_view kWhich =
      "the job runs a program, for which the coordinator wants the token of its "
      "--program-token-file";
  if (path.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        kWhich, "; name a file with it in the environment variable MUSTER_PROGRAM_TOKEN_FILE"));
  }
  const std::string token = BytesOfFile(path);
  if (!token.empty()) return std::string(absl::StripAsciiWhitespace(token));
  return absl::FailedPreconditionError(absl::StrCat(
      kWhich, ", but ", path, " cannot be read; a cluster that takes programs is started with ",
      "`muster up --allow-programs`"));
}

}  // namespace

struct JobClient::Connection {
  Connection(const std::string& address, const RpcCredentials& credentials, absl::Duration timeout)
      : stub(v1::JobService::NewStub(MakeChannel(address, credentials))), call_timeout(timeout) {}

  template <typename Request, typename Reply>
  absl::Status Call(grpc::Status (v1::JobService::Stub::*method)(grpc::ClientContext*,
                                                                 const Request&, Reply*),
                    const Request& request, Reply& reply,
                    std::optional<absl::Duration> timeout = {}) {
    MUSTER_RETURN_IF_ERROR(CheckUtf8(request));
    grpc::ClientContext context;
    SetDeadline(context, timeout.value_or(call_timeout));
    const absl::Status status = FromGrpc(((*stub).*method)(&context, request, &reply));
    return absl::IsDeadlineExceeded(status) ? NoCoordinatorError(status.message()) : status;
  }

  std::unique_ptr<v1::JobService::Stub> stub;
  const absl::Duration call_timeout;
  RealClock clock;
  RealWaiter waiter;

  absl::Mutex mutex;
  // The call of the Watch under way.
  grpc::ClientContext* watch ABSL_GUARDED_BY(mutex) = nullptr;
  bool watch_stopped ABSL_GUARDED_BY(mutex) = false;
};

// One call of Watch, as StopWatching finds it.
class JobClient::Watching {
 public:
  Watching(grpc::ClientContext& context, Connection& connection) : connection_(connection) {
    absl::MutexLock lock(&connection_.mutex);
    connection_.watch = &context;
    stopped_ = connection_.watch_stopped;
  }
  ~Watching() {
    absl::MutexLock lock(&connection_.mutex);
    connection_.watch = nullptr;
  }

  // There is to be none.
  bool stopped() const { return stopped_; }

 private:
  Connection& connection_;
  bool stopped_ = false;
};

JobClient::JobClient(std::string coordinator_address, const RpcCredentials& credentials,
                     Patience patience, std::string program_token_file)
    : address_(std::move(coordinator_address)),
      patience_(patience),
      program_token_file_(std::move(program_token_file)),
      connection_(std::make_unique<Connection>(address_, credentials, patience.call)) {}

JobClient::~JobClient() = default;

absl::Status JobClient::Reach(const std::function<absl::Status()>& attempt) {
  absl::Status failure;
  // Only "unreachable" is repeated here: other refusals are the user's to read at once.
  const absl::Status status =
      Retry({.give_up_after = patience_.unreachable}, connection_->clock, connection_->waiter,
            Philox(RandomBits()), [&]() -> absl::Status {
              failure = attempt();
              return absl::IsUnavailable(failure) ? failure : absl::OkStatus();
            });
  if (!status.ok()) {
    return NoCoordinatorError(
        absl::StrCat("no coordinator answers at ", address_, " (", status.message(),
                     "); start one with `muster up`, or name another with --coordinator"));
  }
  return failure;
}

absl::Status JobClient::Submit(const v1::JobSpec& spec, std::string& job_id) {
  // The check is made on its own, so that an error names its fields as the job's file does.
  MUSTER_RETURN_IF_ERROR(CheckUtf8(spec));
  v1::SubmitJobRequest request;
  *request.mutable_spec() = spec;
  if (spec.owner().empty()) request.mutable_spec()->set_owner(UserName());
  request.set_request_id(absl::StrCat(absl::Hex(RandomBits(), absl::kZeroPad16)));
  if (RunsProgram(spec)) {
    MUSTER_ASSIGN_OR_RETURN(const std::string token, ReadToken(program_token_file_));
    request.set_program_proof(ProofOfSubmit(request, token));
  }
  v1::SubmitJobReply reply;
  const absl::Status status =
      Reach([&] { return connection_->Call(&v1::JobService::Stub::SubmitJob, request, reply); });
  job_id = reply.job_id();
  return status;
}

absl::Status JobClient::Ship(const std::string& name, absl::string_view archive) {
  v1::ShipFolderRequest announced;
  v1::ShippedFolder& folder = *announced.mutable_folder();
  folder.set_name(name);
  folder.set_bytes(archive.size());
  MUSTER_ASSIGN_OR_RETURN(const std::string token, ReadToken(program_token_file_));
  folder.set_proof(ProofOfShipped(folder, token));
  v1::FindShippedFolderReply there;
  MUSTER_RETURN_IF_ERROR(Reach([&] {
    return connection_->Call(&v1::JobService::Stub::FindShippedFolder, folder, there, kShipTimeout);
  }));
  if (there.found()) return absl::OkStatus();
  return Reach([&] {
    grpc::ClientContext context;
    SetDeadline(context, kShipTimeout);
    v1::ShipFolderReply reply;
    const auto stream = connection_->stub->ShipFolder(&context, &reply);
    bool goes_on = stream->Write(announced);
    for (size_t at = 0; goes_on && at < archive.size(); at += kShipChunkBytes) {
      v1::ShipFolderRequest part;
      part.set_data(std::string(archive.substr(at, kShipChunkBytes)));
      goes_on = stream->Write(part);
    }
    stream->WritesDone();
    return FromGrpc(stream->Finish());
  });
}

absl::Status JobClient::Get(const std::string& job_id, v1::JobStatus& status) {
  v1::GetJobRequest request;
  request.set_job_id(job_id);
  return Reach([&] { return connection_->Call(&v1::JobService::Stub::GetJob, request, status); });
}

absl::Status JobClient::List(v1::ListJobsRequest request, v1::ListJobsReply& reply, size_t most) {
  reply.Clear();
  do {
    request.set_page_size(
        static_cast<uint32_t>(std::min(kPageJobs, most - static_cast<size_t>(reply.jobs_size()))));
    v1::ListJobsReply page;
    MUSTER_RETURN_IF_ERROR(
        Reach([&] { return connection_->Call(&v1::JobService::Stub::ListJobs, request, page); }));
    for (v1::JobStatus& job : *page.mutable_jobs()) *reply.add_jobs() = std::move(job);
    if (!page.next_page_token().empty() && page.next_page_token() == request.page_token()) {
      return absl::InternalError(
          "the coordinator's list of jobs does not end: a page names itself as the next page");
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && static_cast<size_t>(reply.jobs_size()) < most);
  reply.set_next_page_token(request.page_token());
  return absl::OkStatus();
}

absl::Status JobClient::ListCalled(const std::string& called, Which which, size_t most,
                                   v1::ListJobsReply& reply) {
  v1::ListJobsRequest request;
  request.set_job(called);
  request.set_newest_first(true);
  request.set_view(v1::ListJobsRequest::SHORT);
  if (which == Which::kUnfinished) {
    for (const v1::JobState state : {v1::PENDING, v1::PLACING, v1::RUNNING, v1::RECOVERING}) {
      request.add_states(state);
    }
  }
  MUSTER_RETURN_IF_ERROR(List(std::move(request), reply, most));
  for (const v1::JobStatus& job : reply.jobs()) {
    if (job.job_id() == called || job.spec().name() == called) continue;
    // A coordinator of an earlier release lists any jobs, and takes ids alone.
    reply.Clear();
    reply.add_jobs()->set_job_id(called);
    break;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> JobClient::Find(const std::string& called, Naming naming) {
  if (called.empty()) {
    return absl::InvalidArgumentError(
        "the job's name is empty; give an id or a name that `muster list` shows");
  }
  v1::ListJobsReply found;
  if (naming != Naming::kOne) {
    const size_t most = naming == Naming::kNewest ? 1 : kMostNamed;
    MUSTER_RETURN_IF_ERROR(ListCalled(called, Which::kUnfinished, most, found));
  }
  if (found.jobs().empty()) {
    const size_t most = naming == Naming::kOne ? kMostNamed : 1;
    MUSTER_RETURN_IF_ERROR(ListCalled(called, Which::kAll, most, found));
  }
  if (found.jobs().empty()) {
    return absl::NotFoundError(absl::StrCat("no job has the id or the name \"", called,
                                            "\"; `muster list` shows all jobs"));
  }
  if (found.jobs_size() == 1) return found.jobs(0).job_id();
  std::string which;
  for (const v1::JobStatus& job : found.jobs()) {
    absl::StrAppend(
        &which, "\n  ", PrintableLine(job.job_id()), "  ", StateName(job), ", submitted ",
        absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixMillis(job.submitted_unix_ms()),
                         absl::LocalTimeZone()));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("several jobs are called \"", called, "\"",
                   found.next_page_token().empty() ? "" : " (the newest are shown)",
                   "; give the id of the one you mean:", which));
}

absl::Status JobClient::Events(const std::string& job_id, v1::ListEventsReply& reply) {
  v1::GetJobRequest request;
  request.set_job_id(job_id);
  return Reach(
      [&] { return connection_->Call(&v1::JobService::Stub::ListEvents, request, reply); });
}

absl::Status JobClient::Collectives(const std::string& job_id, v1::ListCollectivesReply& reply) {
  v1::GetJobRequest request;
  request.set_job_id(job_id);
  return Reach(
      [&] { return connection_->Call(&v1::JobService::Stub::ListCollectives, request, reply); });
}

absl::Status JobClient::Cancel(const std::string& job_id, const std::string& reason,
                               v1::JobStatus& status) {
  v1::CancelJobRequest request;
  request.set_job_id(job_id);
  request.set_reason(reason);
  return Reach(
      [&] { return connection_->Call(&v1::JobService::Stub::CancelJob, request, status); });
}

absl::Status JobClient::Delete(const std::string& job_id) {
  // Looks the job up first, which changes nothing: if a deletion says that there is no such job, an
  // earlier attempt without an answer may have deleted it.
  v1::JobStatus there;
  MUSTER_RETURN_IF_ERROR(Get(job_id, there));
  v1::GetJobRequest request;
  request.set_job_id(job_id);
  v1::DeleteJobReply reply;
  const absl::Status deleted =
      Reach([&] { return connection_->Call(&v1::JobService::Stub::DeleteJob, request, reply); });
  return absl::IsNotFound(deleted) ? absl::OkStatus() : deleted;
}

absl::Status JobClient::Describe(const std::string& job_id, const std::string& description,
                                 v1::JobStatus& status) {
  v1::DescribeJobRequest request;
  request.set_job_id(job_id);
  request.set_description(description);
  return Reach(
      [&] { return connection_->Call(&v1::JobService::Stub::DescribeJob, request, status); });
}

absl::Status JobClient::Checkpoints(const std::string& job_id, v1::ListCheckpointsReply& reply) {
  v1::GetJobRequest request;
  request.set_job_id(job_id);
  return Reach(
      [&] { return connection_->Call(&v1::JobService::Stub::ListCheckpoints, request, reply); });
}

absl::Status JobClient::VerifyCheckpoint(const v1::CheckpointRequest& request,
                                         v1::VerifyCheckpointReply& reply) {
  return Reach([&] {
    return connection_->Call(&v1::JobService::Stub::VerifyCheckpoint, request, reply,
                             kVerifyTimeout);
  });
}

absl::Status JobClient::DeleteCheckpoint(const v1::DeleteCheckpointRequest& request,
                                         v1::DeleteCheckpointReply& reply) {
  return Reach(
      [&] { return connection_->Call(&v1::JobService::Stub::DeleteCheckpoint, request, reply); });
}

absl::Status JobClient::Cluster(v1::GetClusterReply& reply) {
  const v1::GetClusterRequest request;
  return Reach(
      [&] { return connection_->Call(&v1::JobService::Stub::GetCluster, request, reply); });
}

absl::Status JobClient::DrainServer(const v1::DrainServerRequest& request,
                                    v1::DrainServerReply& reply) {
  return Reach(
      [&] { return connection_->Call(&v1::JobService::Stub::DrainServer, request, reply); });
}

absl::Status JobClient::Rebalance(const std::string& job_id, v1::JobStatus& status) {
  v1::GetJobRequest request;
  request.set_job_id(job_id);
  return Reach(
      [&] { return connection_->Call(&v1::JobService::Stub::RebalanceJob, request, status); });
}

absl::Status JobClient::Metrics(std::string& text) {
  const v1::GetMetricsRequest request;
  v1::GetMetricsReply reply;
  const absl::Status status =
      Reach([&] { return connection_->Call(&v1::JobService::Stub::GetMetrics, request, reply); });
  text = reply.text();
  return status;
}

absl::Status JobClient::Watch(const std::string& job_id,
                              const std::function<void(const v1::JobStatus&)>& changed,
                              v1::JobStatus& status) {
  v1::GetJobRequest request;
  request.set_job_id(job_id);
  MUSTER_RETURN_IF_ERROR(CheckUtf8(request));
  while (!HasEnded(status)) {
    // A stream that broke after it had begun to answer starts again with patience anew.
    const absl::Status watched = Reach([&]() -> absl::Status {
      grpc::ClientContext context;
      const Watching watching(context, *connection_);
      if (watching.stopped()) return absl::CancelledError("nobody watches the job any more");
      const auto stream = connection_->stub->WatchJob(&context, request);
      bool answered = false;
      while (stream->Read(&status)) {
        answered = true;
        changed(status);
      }
      const absl::Status finished = FromGrpc(stream->Finish());
      return answered && absl::IsUnavailable(finished) ? absl::OkStatus() : finished;
    });
    if (!watched.ok()) return watched;
  }
  return absl::OkStatus();
}

void JobClient::StopWatching() {
  absl::MutexLock lock(&connection_->mutex);
  connection_->watch_stopped = true;
  if (connection_->watch != nullptr) connection_->watch->TryCancel();
}

absl::Status JobClient::Trace(const v1::TraceJobRequest& request,
                              const std::function<absl::Status(const v1::TraceChunk&)>& added) {
  MUSTER_RETURN_IF_ERROR(CheckUtf8(request));
  return Reach([&]() -> absl::Status {
    grpc::ClientContext context;
    const auto stream = connection_->stub->TraceJob(&context, request);
    v1::TraceChunk chunk;
    absl::Status status;
    bool begun = false;
    while (status.ok() && stream->Read(&chunk)) {
      begun = true;
      status = added(chunk);
    }
    if (!status.ok()) context.TryCancel();
    const absl::Status finished = FromGrpc(stream->Finish());
    if (!status.ok()) return status;
    if (!begun || !absl::IsUnavailable(finished)) return finished;
    return absl::AbortedError(
        absl::StrCat("the coordinator went away during the trace: ", finished.message()));
  });
}

absl::Status JobClient::Logs(v1::ReadLogsRequest request,
                             const std::function<void(absl::string_view)>& text) {
  MUSTER_RETURN_IF_ERROR(CheckUtf8(request));
  bool interrupted = true;
  const auto read = [&]() -> absl::Status {
    grpc::ClientContext context;
    const auto stream = connection_->stub->ReadLogs(&context, request);
    v1::LogChunk chunk;
    interrupted = false;
    bool answered = false;
    while (stream->Read(&chunk)) {
      answered = true;
      if (chunk.missing_bytes() > 0) {
        text(absl::StrCat("[", chunk.missing_bytes(), " bytes of older log were dropped",
                          request.has_slot() ? ", of this slot or others" : "", "]\n"));
      }
      text(chunk.text());
      // The text after this is wanted, however long ago the first call was.
      request.set_offset(
          std::max<uint64_t>(chunk.next_offset(), chunk.offset() + chunk.text().size()));
      request.clear_since_ms();
      request.clear_tail_lines();
    }
    const absl::Status finished = FromGrpc(stream->Finish());
    // A stream that broke after it had begun to answer goes on with patience anew.
    interrupted = answered && absl::IsUnavailable(finished);
    return interrupted ? absl::OkStatus() : finished;
  };
  absl::Status status;
  while (status.ok() && interrupted) status = Reach(read);
  return status;
}

absl::Status JobClient::History(const v1::ReadMetricsRequest& request, v1::MetricsChunk& read) {
  MUSTER_RETURN_IF_ERROR(CheckUtf8(request));
  return Reach([&]() -> absl::Status {
    grpc::ClientContext context;
    const auto stream = connection_->stub->ReadMetrics(&context, request);
    // After an interruption all comes again.
    read.Clear();
    absl::flat_hash_map<std::string, int> places;
    v1::MetricsChunk chunk;
    while (stream->Read(&chunk)) AddChunk(chunk, places, read);
    return FromGrpc(stream->Finish());
  });
}

absl::Status JobClient::StreamHistory(
    const v1::ReadMetricsRequest& request,
    const std::function<absl::Status(const v1::MetricsChunk&)>& added) {
  MUSTER_RETURN_IF_ERROR(CheckUtf8(request));
  absl::Status taken;
  bool interrupted = true;
  const auto read = [&]() -> absl::Status {
    grpc::ClientContext context;
    const auto stream = connection_->stub->ReadMetrics(&context, request);
    v1::MetricsChunk chunk;
    bool answered = false;
    while (taken.ok() && stream->Read(&chunk)) {
      answered = true;
      taken = added(chunk);
    }
    if (!taken.ok()) context.TryCancel();
    const absl::Status finished = FromGrpc(stream->Finish());
    // A stream that broke after its first answer is retried with full patience.
    interrupted = taken.ok() && answered && absl::IsUnavailable(finished);
    return interrupted || !taken.ok() ? absl::OkStatus() : finished;
  };
  absl::Status status;
  while (status.ok() && interrupted) {
    interrupted = false;
    status = Reach(read);
  }
  return taken.ok() ? status : taken;
}

absl::Status JobClient::Export(const v1::CheckpointRequest& request,
                               const std::function<absl::Status(absl::string_view)>& data) {
  MUSTER_RETURN_IF_ERROR(CheckUtf8(request));
  grpc::ClientContext context;
  const auto stream = connection_->stub->ExportJob(&context, request);
  v1::ExportChunk chunk;
  while (stream->Read(&chunk)) {
    if (absl::Status written = data(chunk.data()); !written.ok()) {
      context.TryCancel();
      return written;
    }
  }
  const absl::Status finished = FromGrpc(stream->Finish());
  return absl::IsUnavailable(finished) ? NoCoordinatorError(finished.message()) : finished;
}

}  // namespace muster
