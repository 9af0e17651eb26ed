#include "server/coordinator/job_streams.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/catch_out_of_memory.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/coordinator/update_stream.h"

namespace muster {
namespace {

constexpr size_t kExportChunkBytes = 1 << 20;
constexpr absl::Duration kExportPatience = absl::Seconds(30);

class WatchStream final : public UpdateStream<v1::JobStatus, JobRequests::StatusUpdate> {
 public:
  WatchStream(CoordinatorLoop& loop, std::string job_id)
      : UpdateStream(loop), job_id_(std::move(job_id)) {
    Next();
  }

 private:
  void Ask(Coordinator& coordinator, Call<JobRequests::StatusUpdate> call) override {
    coordinator.jobs().NextStatus(job_id_, seen_version_, std::move(call));
  }

  v1::JobStatus Take(JobRequests::StatusUpdate& update) override {
    seen_version_ = update.version;
    return std::move(update.status);
  }

  const std::string job_id_;
  uint64_t seen_version_ = 0;
};

class LogStream final : public UpdateStream<v1::LogChunk, JobRequests::LogUpdate> {
 public:
  LogStream(CoordinatorLoop& loop, const v1::ReadLogsRequest& request)
      : UpdateStream(loop), request_(request) {
    Next();
  }

 private:
  void Ask(Coordinator& coordinator, Call<JobRequests::LogUpdate> call) override {
    coordinator.jobs().NextLog(request_, std::move(call));
  }

  v1::LogChunk Take(JobRequests::LogUpdate& update) override {
    request_.set_offset(update.chunk.next_offset());
    // These options select from the text that was there at first.
    request_.clear_since_ms();
    request_.clear_tail_lines();
    return std::move(update.chunk);
  }

  v1::ReadLogsRequest request_;
};

class MetricsStream final : public UpdateStream<v1::MetricsChunk, MetricsRequests::Update> {
 public:
  MetricsStream(CoordinatorLoop& loop, const v1::ReadMetricsRequest& request)
      : UpdateStream(loop), request_(request) {
    Next();
  }

 private:
  void Ask(Coordinator& coordinator, Call<MetricsRequests::Update> call) override {
    coordinator.metrics().Next(request_, std::move(position_), std::move(call));
  }

  v1::MetricsChunk Take(MetricsRequests::Update& update) override {
    position_ = std::move(update.position);
    return std::move(update.chunk);
  }

  const v1::ReadMetricsRequest request_;
  MetricsRequests::Position position_;
};

class TraceStream final : public UpdateStream<v1::TraceChunk, TraceRequests::Update> {
 public:
  TraceStream(CoordinatorLoop& loop, const v1::TraceJobRequest& request) : UpdateStream(loop) {
    loop.Post([this, request](Coordinator& coordinator) {
      absl::StatusOr<TraceRequests::Ticket> begun = coordinator.traces().Begin(request);
      if (!begun.ok()) return Finish(AtEdge(begun.status()));
      ticket_ = *std::move(begun);
      Next();
    });
  }

 private:
  void Ask(Coordinator& coordinator, Call<TraceRequests::Update> call) override {
    coordinator.traces().Next(ticket_, std::move(call));
  }

  v1::TraceChunk Take(TraceRequests::Update& update) override { return std::move(update.chunk); }

  // Written before the first call of Ask.
  TraceRequests::Ticket ticket_;
};

class ExportStream final : public RawStream {
 public:
  ExportStream(CoordinatorLoop& loop, const v1::CheckpointRequest& request,
               grpc::CallbackServerContext* context)
      : context_(context) {
    loop.PostRead([this, &loop, request](Coordinator& coordinator) {
      const absl::StatusOr<std::string> folder = coordinator.checkpoints().Folder(request);
      if (!folder.ok()) return Finish(AtEdge(folder.status()));
      const ExportedValues values =
          request.averaged() ? ExportedValues::kAverages : ExportedValues::kWeights;
      loop.PostExport([this, folder = *folder, values](const CheckpointArchive& archive) {
        Finish(AtEdge(CatchOutOfMemory("the call", [&] {
          return archive.Export(folder, values,
                                [this](absl::string_view bytes) { return Write(bytes); });
        })));
      });
    });
  }

 private:
  // Sends all bytes and returns when gRPC has taken them. Export thread only.
  absl::Status Write(absl::string_view bytes) {
    while (!bytes.empty()) {
      const absl::string_view part = bytes.substr(0, kExportChunkBytes);
      bytes.remove_prefix(part.size());
      v1::ExportChunk chunk;
      chunk.set_data(std::string(part));
      chunk_.Clear();
      if (absl::Status status = WriteReply(chunk, chunk_); !status.ok()) return status;
      {
        absl::MutexLock lock(&mutex_);
        writing_ = true;
      }
      StartWrite(&chunk_);
      absl::MutexLock lock(&mutex_);
      if (!mutex_.AwaitWithTimeout(absl::Condition(this, &ExportStream::IdleLocked),
                                   kExportPatience)) {
        // The write ends, unsent, once the call is cancelled.
        context_->TryCancel();
        mutex_.Await(absl::Condition(this, &ExportStream::IdleLocked));
        return absl::DeadlineExceededError(
            absl::StrCat("the export was cancelled: the client took nothing for ",
                         absl::FormatDuration(kExportPatience)));
      }
      if (failed_) return absl::CancelledError("the caller is gone");
    }
    return absl::OkStatus();
  }

  bool IdleLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !writing_; }

  void OnWriteDone(bool sent) override {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    failed_ = failed_ || !sent;
  }

  void OnDone() override { delete this; }

  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer chunk_;
  absl::Mutex mutex_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
};

// One message is read at a time; the next one once this one is on the disk.
class ShipStream final : public RawUpload {
 public:
  ShipStream(CoordinatorLoop& loop, grpc::ByteBuffer* reply) : loop_(loop), reply_(reply) {
    StartRead(&message_);
  }

 private:
  void OnReadDone(bool any) override {
    if (!any) return Complete();
    v1::ShipFolderRequest request;
    if (absl::Status read = ReadRequest(message_, request); !read.ok()) return End(read);
    message_.Clear();
    if (upload_ == nullptr) return Begin(request.folder());
    upload_->Append(std::move(*request.mutable_data()), [this](absl::Status appended) {
      if (!appended.ok()) return End(appended);
      StartRead(&message_);
    });
  }

  void Begin(const v1::ShippedFolder& folder) {
    loop_.PostRead([this, folder](Coordinator& coordinator) {
      coordinator.shipped().Begin(folder,
                                  {.done =
                                       [this](absl::StatusOr<std::shared_ptr<FolderUpload>> begun) {
                                         // What the coordinator has is not read.
                                         if (!begun.ok() || *begun == nullptr)
                                           return End(begun.status());
                                         upload_ = *std::move(begun);
                                         StartRead(&message_);
                                       },
                                   .cancelled = nullptr});
    });
  }

  // The client has sent all, or is gone; then bytes are missing.
  void Complete() {
    if (upload_ == nullptr) {
      return End(absl::InvalidArgumentError(
          "no folder was announced; send a message with `folder` first"));
    }
    upload_->Complete([this](absl::Status completed) { End(completed); });
  }

  void End(absl::Status status) {
    if (status.ok()) status = WriteReply(v1::ShipFolderReply(), *reply_);
    Finish(AtEdge(status));
  }

  void OnDone() override { delete this; }

  CoordinatorLoop& loop_;
  grpc::ByteBuffer* const reply_;
  grpc::ByteBuffer message_;
  // Null before the first message is answered. Written before the next read starts.
  std::shared_ptr<FolderUpload> upload_;
};

}  // namespace

RawStream* StartWatch(CoordinatorLoop& loop, const v1::GetJobRequest& request,
                      grpc::CallbackServerContext*) {
  return new WatchStream(loop, request.job_id());
}

RawStream* StartLogs(CoordinatorLoop& loop, const v1::ReadLogsRequest& request,
                     grpc::CallbackServerContext*) {
  return new LogStream(loop, request);
}

RawStream* StartMetrics(CoordinatorLoop& loop, const v1::ReadMetricsRequest& request,
                        grpc::CallbackServerContext*) {
  return new MetricsStream(loop, request);
}

RawStream* StartTrace(CoordinatorLoop& loop, const v1::TraceJobRequest& request,
                      grpc::CallbackServerContext*) {
  return new TraceStream(loop, request);
}

RawStream* StartExport(CoordinatorLoop& loop, const v1::CheckpointRequest& request,
                       grpc::CallbackServerContext* context) {
  return new ExportStream(loop, request, context);
}

RawUpload* StartShipFolder(CoordinatorLoop& loop, grpc::ByteBuffer* reply) {
  return new ShipStream(loop, reply);
}

}  // namespace muster
