#include "tests/harness/in_process_client.h"

#include <atomic>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/rpc_status.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

absl::StatusOr<ExchangeResult> ToResult(v1::ExchangeReply reply, Payload payload) {
  if (reply.code() != 0) {
    absl::Status status = FromCode(reply.code(), reply.message());
    if (reply.retry_after_ms() == 0) return status;
    return WithRetryAfter(std::move(status), absl::Milliseconds(reply.retry_after_ms()));
  }
  return ExchangeResult{std::make_shared<const v1::ExchangeReply>(std::move(reply)),
                        std::move(payload)};
}

class InProcessClient final : public ParameterClient {
 public:
  explicit InProcessClient(PartitionHost& host) : host_(host) {}
  ~InProcessClient() override { Abort(absl::UnavailableError("the client is gone")); }

  absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest& request,
                                                 absl::Duration timeout) override {
    return host_.OpenTables(request);
  }

  absl::StatusOr<v1::EndGenerationReply> EndGeneration(const v1::EndGenerationRequest& request,
                                                       absl::Duration timeout) override {
    return host_.EndGeneration(request);
  }

  absl::Status DropTables(const std::string& job_id, absl::Duration timeout) override {
    v1::DropTablesRequest request;
    request.set_job_id(job_id);
    return host_.DropTables(request);
  }

  absl::StatusOr<v1::GetServerStatsReply> Stats(absl::Duration timeout) override {
    return host_.Stats();
  }

  void Call(v1::ExchangeRequest request, Payload payload, Done done) override {
    uint64_t id = 0;
    absl::Status refused;
    {
      absl::MutexLock lock(&state_->mutex);
      refused = state_->aborted;
      if (refused.ok()) {
        id = state_->next++;
        state_->outstanding.emplace(id, std::move(done));
      }
    }
    if (!refused.ok()) return done(refused);
    ExchangeCall call;
    call.request = std::make_shared<const v1::ExchangeRequest>(std::move(request));
    call.payload = std::move(payload);
    call.cancelled = std::shared_ptr<const std::atomic<bool>>(state_, &state_->cancelled);
    call.done = [state = state_, id](v1::ExchangeReply reply, Payload bytes) {
      Done done;
      {
        absl::MutexLock lock(&state->mutex);
        auto it = state->outstanding.find(id);
        if (it == state->outstanding.end()) return;
        done = std::move(it->second);
        state->outstanding.erase(it);
      }
      done(ToResult(std::move(reply), std::move(bytes)));
    };
    host_.Execute(std::move(call));
  }

  void Abort(absl::Status reason) override {
    std::map<uint64_t, Done> ended;
    {
      absl::MutexLock lock(&state_->mutex);
      if (!state_->aborted.ok()) return;
      state_->aborted = reason;
      ended.swap(state_->outstanding);
    }
    state_->cancelled = true;
    for (auto& [id, done] : ended) done(reason);
  }

 private:
  // Outlives the client while the engine holds a call.
  struct State {
    std::atomic<bool> cancelled = false;
    absl::Mutex mutex;
    absl::Status aborted ABSL_GUARDED_BY(mutex);
    uint64_t next ABSL_GUARDED_BY(mutex) = 1;
    std::map<uint64_t, Done> outstanding ABSL_GUARDED_BY(mutex);
  };

  PartitionHost& host_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace

std::unique_ptr<ParameterClient> MakeInProcessClient(PartitionHost& host) {
  return std::make_unique<InProcessClient>(host);
}

}  // namespace muster
