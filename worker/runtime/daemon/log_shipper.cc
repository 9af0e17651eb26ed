#include "worker/runtime/daemon/log_shipper.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel.h"
#include "common/rpc/rpc_status.h"
#include "common/text/utf8.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "proto/cluster_service.grpc.pb.h"

namespace muster {
namespace {

constexpr absl::Duration kAppendTimeout = absl::Seconds(2);
constexpr absl::Duration kPauseAfterFailure = absl::Milliseconds(50);

class GrpcLogSink final : public LogSink {
 public:
  GrpcLogSink(const std::string& address, const RpcCredentials& credentials)
      : stub_(v1::ClusterService::NewStub(MakeChannel(address, credentials))) {}

  absl::Status Append(const std::string& job_id, uint32_t slot, const std::string& text) override {
    v1::AppendLogsRequest request;
    request.set_job_id(job_id);
    request.set_slot(slot);
    request.set_text(text);
    v1::AppendLogsReply reply;
    grpc::ClientContext context;
    SetDeadline(context, kAppendTimeout);
    return FromGrpc(stub_->AppendLogs(&context, request, &reply));
  }

 private:
  const std::unique_ptr<v1::ClusterService::Stub> stub_;
};

}  // namespace

std::unique_ptr<LogSink> MakeGrpcLogSink(const std::string& address,
                                         const RpcCredentials& credentials) {
  return std::make_unique<GrpcLogSink>(address, credentials);
}

LogShipper::LogShipper(LogSink& sink, LogShipperOptions options)
    : sink_(sink), options_(options), thread_([this] { Run(); }) {}

LogShipper::~LogShipper() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void LogShipper::Add(const std::string& job_id, uint32_t slot, absl::string_view text) {
  std::string valid = ToUtf8(text);
  absl::MutexLock lock(&mutex_);
  bytes_ += valid.size();
  // The first chunk may be on its way.
  const bool joinable = chunks_.size() > (sending_ ? 1 : 0);
  if (joinable && chunks_.back().job_id == job_id && chunks_.back().slot == slot &&
      chunks_.back().text.size() + valid.size() <= options_.max_chunk_bytes) {
    chunks_.back().text += valid;
  } else {
    chunks_.push_back({job_id, slot, std::move(valid)});
  }
  DropOldestLocked();
}

void LogShipper::DropOldestLocked() {
  const size_t oldest = sending_ ? 1 : 0;
  while (bytes_ > options_.max_bytes && chunks_.size() > oldest + 1) {
    const Chunk& chunk = chunks_[oldest];
    bytes_ -= chunk.text.size();
    dropped_[{chunk.job_id, chunk.slot}] += chunk.text.size();
    chunks_.erase(chunks_.begin() + oldest);
  }
}

bool LogShipper::Flush(absl::Duration timeout) {
  auto empty = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return chunks_.empty(); };
  return Await(absl::Condition(&empty), timeout);
}

bool LogShipper::FlushSlot(const std::string& job_id, uint32_t slot, absl::Duration timeout) {
  auto none = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::none_of(chunks_.begin(), chunks_.end(), [&](const Chunk& chunk) {
      return chunk.job_id == job_id && chunk.slot == slot;
    });
  };
  return Await(absl::Condition(&none), timeout);
}

bool LogShipper::Await(const absl::Condition& flushed, absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  ++flushing_;
  const bool is_flushed = mutex_.AwaitWithTimeout(flushed, timeout);
  --flushing_;
  return is_flushed;
}

void LogShipper::Run() {
  auto wanted = [this]()
                    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !chunks_.empty(); };
  auto hurried = [this]()
                     ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || flushing_ > 0; };
  absl::Duration wait = options_.gather;
  while (true) {
    Chunk chunk;
    size_t dropped = 0;
    bool within_line = false;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&wanted));
      mutex_.AwaitWithTimeout(absl::Condition(&hurried), wait);
      if (stopping_) return;
      sending_ = true;
      chunk = chunks_.front();
      if (auto it = dropped_.find({chunk.job_id, chunk.slot}); it != dropped_.end()) {
        dropped = it->second;
      }
      within_line = within_line_.contains({chunk.job_id, chunk.slot});
    }
    const std::string note = dropped == 0 ? ""
                                          : absl::StrCat(within_line ? "\n" : "", "[", dropped,
                                                         " bytes of output were dropped here]\n");
    const absl::Status sent = sink_.Append(chunk.job_id, chunk.slot, note + chunk.text);
    absl::MutexLock lock(&mutex_);
    sending_ = false;
    if (sent.ok() || absl::IsNotFound(sent)) {
      bytes_ -= chunk.text.size();
      chunks_.pop_front();
      if (chunk.text.ends_with('\n')) {
        within_line_.erase({chunk.job_id, chunk.slot});
      } else {
        within_line_.emplace(chunk.job_id, chunk.slot);
      }
      // More may have been dropped meanwhile, behind this chunk.
      if (dropped > 0 && (dropped_[{chunk.job_id, chunk.slot}] -= dropped) == 0) {
        dropped_.erase({chunk.job_id, chunk.slot});
      }
      wait = options_.gather;
    } else {
      wait = options_.retry_after;
      // Waits even during a Flush, so that a coordinator that is away is not called in a tight
      // loop.
      mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kPauseAfterFailure);
    }
  }
}

}  // namespace muster
