#include "tests/equivalence/watched_client.h"

#include <cstddef>
#include <string>
#include <utility>

#include "common/partition/wire_dtype.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

class WatchedClient final : public ParameterClient {
 public:
  WatchedClient(std::unique_ptr<ParameterClient> client, uint32_t slot, StepObserver& observer)
      : client_(std::move(client)), slot_(slot), observer_(observer) {}

  absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest& request,
                                                 absl::Duration timeout) override {
    return client_->OpenTables(request, timeout);
  }
  absl::StatusOr<v1::EndGenerationReply> EndGeneration(const v1::EndGenerationRequest& request,
                                                       absl::Duration timeout) override {
    return client_->EndGeneration(request, timeout);
  }
  absl::Status DropTables(const std::string& job_id, absl::Duration timeout) override {
    return client_->DropTables(job_id, timeout);
  }
  absl::StatusOr<v1::GetServerStatsReply> Stats(absl::Duration timeout) override {
    return client_->Stats(timeout);
  }
  void Call(v1::ExchangeRequest request, Payload payload, Done done) override {
    Show(request);
    client_->Call(std::move(request), std::move(payload), std::move(done));
  }
  void CallInto(v1::ExchangeRequest request, Payload payload, absl::Span<std::byte> landing,
                Done done) override {
    Show(request);
    client_->CallInto(std::move(request), std::move(payload), landing, std::move(done));
  }
  void SetWaiting(bool waiting) override { client_->SetWaiting(waiting); }
  void Abort(absl::Status reason) override { client_->Abort(std::move(reason)); }

 private:
  template <typename Operation>
  void Show(Collective kind, uint32_t partition, const Operation& operation) {
    observer_.Sent(slot_, {.kind = kind,
                           .dtype = WireDType(operation.type()).value(),
                           .partition = partition,
                           .first_block = operation.first_block(),
                           .blocks = operation.blocks()});
  }
  void Show(const v1::ExchangeRequest& request) {
    if (request.has_dense_pull()) {
      Show(Collective::kReceive, request.partition(), request.dense_pull());
    } else if (request.has_dense_push()) {
      Show(Collective::kSend, request.partition(), request.dense_push());
    }
  }

  const std::unique_ptr<ParameterClient> client_;
  const uint32_t slot_;
  StepObserver& observer_;
};

}  // namespace

std::unique_ptr<ParameterClient> WatchClient(std::unique_ptr<ParameterClient> client, uint32_t slot,
                                             StepObserver& observer) {
  return std::make_unique<WatchedClient>(std::move(client), slot, observer);
}

}  // namespace muster
