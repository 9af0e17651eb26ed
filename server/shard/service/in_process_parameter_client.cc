#include "server/shard/service/in_process_parameter_client.h"

#include <atomic>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/rpc_status.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

// Calls that the host has yet to answer. Outlives the client, since the host may answer after it
// has gone.
class Outstanding {
 public:
  // Not OK: aborted.
  absl::Status Add(uint64_t id, ParameterClient::Done* done) {
    absl::MutexLock lock(&mutex_);
    if (!aborted_.ok()) return aborted_;
    calls_.emplace(id, std::move(*done));
    return absl::OkStatus();
  }

  // Null: aborted meanwhile.
  ParameterClient::Done Remove(uint64_t id) {
    absl::MutexLock lock(&mutex_);
    auto it = calls_.find(id);
    if (it == calls_.end()) return nullptr;
    ParameterClient::Done done = std::move(it->second);
    calls_.erase(it);
    return done;
  }

  void Abort(const absl::Status& reason) {
    cancelled_->store(true);
    absl::flat_hash_map<uint64_t, ParameterClient::Done> calls;
    {
      absl::MutexLock lock(&mutex_);
      if (aborted_.ok()) aborted_ = reason;
      calls.swap(calls_);
    }
    for (auto& [id, done] : calls) done(reason);
  }

  const std::shared_ptr<std::atomic<bool>>& cancelled() const { return cancelled_; }

 private:
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
  absl::Mutex mutex_;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, ParameterClient::Done> calls_ ABSL_GUARDED_BY(mutex_);
};

class InProcessParameterClient final : public ParameterClient {
 public:
  explicit InProcessParameterClient(PartitionHost& host) : host_(host) {}

  ~InProcessParameterClient() override { Abort(absl::CancelledError("the client was closed")); }

  absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest& request,
                                                 absl::Duration) override {
    return host_.OpenTables(request);
  }

  absl::StatusOr<v1::EndGenerationReply> EndGeneration(const v1::EndGenerationRequest& request,
                                                       absl::Duration) override {
    return host_.EndGeneration(request);
  }

  absl::Status DropTables(const std::string& job_id, absl::Duration) override {
    v1::DropTablesRequest request;
    request.set_job_id(job_id);
    return host_.DropTables(request);
  }

  absl::StatusOr<v1::GetServerStatsReply> Stats(absl::Duration) override { return host_.Stats(); }

  void Call(v1::ExchangeRequest request, Payload payload, Done done) override {
    const uint64_t id = next_id_.fetch_add(1);
    request.set_request_id(id);
    if (absl::Status status = outstanding_->Add(id, &done); !status.ok()) {
      done(std::move(status));
      return;
    }
    ExchangeCall call;
    call.request = std::make_shared<v1::ExchangeRequest>(std::move(request));
    call.payload = std::move(payload);
    call.cancelled = outstanding_->cancelled();
    call.done = [outstanding = outstanding_, id](v1::ExchangeReply reply, Payload payload) {
      Done done = outstanding->Remove(id);
      if (!done) return;
      reply.set_request_id(id);
      if (reply.code() == 0) {
        done(ExchangeResult{std::make_shared<v1::ExchangeReply>(std::move(reply)),
                            std::move(payload)});
        return;
      }
      absl::Status status = FromCode(reply.code(), reply.message());
      if (reply.retry_after_ms() > 0) {
        status = WithRetryAfter(std::move(status), absl::Milliseconds(reply.retry_after_ms()));
      }
      done(std::move(status));
    };
    host_.Execute(std::move(call));
  }

  void Abort(absl::Status reason) override { outstanding_->Abort(reason); }

 private:
  PartitionHost& host_;
  std::atomic<uint64_t> next_id_{1};
  const std::shared_ptr<Outstanding> outstanding_ = std::make_shared<Outstanding>();
};

}  // namespace

std::unique_ptr<ParameterClient> MakeInProcessParameterClient(PartitionHost& host) {
  return std::make_unique<InProcessParameterClient>(host);
}

}  // namespace muster
