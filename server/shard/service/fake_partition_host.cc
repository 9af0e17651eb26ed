#include "server/shard/service/fake_partition_host.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/parameter_service.pb.h"

namespace muster {

absl::StatusOr<v1::OpenTablesReply> FakePartitionHost::OpenTables(
    const v1::OpenTablesRequest& request) {
  absl::MutexLock lock(&mutex_);
  const auto released = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !held_; };
  mutex_.Await(absl::Condition(&released));
  if (request.job_id().empty()) return absl::InvalidArgumentError("job_id is empty");
  v1::OpenTablesReply reply;
  for (const v1::PartitionTerm& term : request.partitions()) {
    reply.add_partitions()->set_partition(term.partition());
  }
  return reply;
}

absl::StatusOr<v1::EndGenerationReply> FakePartitionHost::EndGeneration(
    const v1::EndGenerationRequest& request) {
  if (request.job_id().empty()) return absl::InvalidArgumentError("job_id is empty");
  v1::EndGenerationReply reply;
  for (const v1::PartitionTerm& term : request.partitions()) {
    v1::PartitionClocks& clocks = *reply.add_partitions();
    clocks.set_partition(term.partition());
    clocks.add_closed(request.next_generation());
  }
  return reply;
}

absl::Status FakePartitionHost::DropTables(const v1::DropTablesRequest& request) {
  if (request.job_id().empty()) return absl::InvalidArgumentError("job_id is empty");
  return absl::OkStatus();
}

void FakePartitionHost::Execute(ExchangeCall call) {
  {
    absl::MutexLock lock(&mutex_);
    ++executed_;
    if (call.request->has_dense_push()) {
      order_.emplace_back(call.request->partition(), call.request->slot());
    }
    if (held_) {
      waiting_.push_back(std::move(call));
      return;
    }
    if (!call.request->has_dense_push() && call.request->clock() > 0) {
      parked_.push_back(std::move(call));
      return;
    }
  }
  Answer(std::move(call));
}

void FakePartitionHost::Answer(ExchangeCall call) {
  v1::ExchangeReply reply;
  Payload payload;
  {
    absl::MutexLock lock(&mutex_);
    if (!call.request->has_dense_push()) {
      payload = Payload::Of(sum_);
    } else if (call.payload.size() == sum_.size() * sizeof(float)) {
      call.payload.AddTo(absl::MakeSpan(sum_));
    } else {
      reply.set_code(static_cast<int>(absl::StatusCode::kInvalidArgument));
      reply.set_message(absl::StrCat("payload has ", call.payload.size(), " bytes, expected ",
                                     sum_.size() * sizeof(float)));
    }
  }
  call.done(std::move(reply), std::move(payload));
}

v1::GetServerStatsReply FakePartitionHost::Stats() const {
  v1::GetServerStatsReply reply;
  reply.set_bytes_pushed(executed());
  return reply;
}

void FakePartitionHost::Hold() {
  absl::MutexLock lock(&mutex_);
  held_ = true;
}

void FakePartitionHost::Release() {
  std::vector<ExchangeCall> waiting;
  {
    absl::MutexLock lock(&mutex_);
    held_ = false;
    waiting.swap(waiting_);
  }
  for (ExchangeCall& call : waiting) Answer(std::move(call));
}

size_t FakePartitionHost::parked() const {
  absl::MutexLock lock(&mutex_);
  return parked_.size();
}

size_t FakePartitionHost::executed() const {
  absl::MutexLock lock(&mutex_);
  return executed_;
}

std::vector<std::pair<uint32_t, uint32_t>> FakePartitionHost::order() const {
  absl::MutexLock lock(&mutex_);
  return order_;
}

bool FakePartitionHost::parked_cancelled(size_t index) const {
  absl::MutexLock lock(&mutex_);
  return parked_[index].cancelled->load();
}

void FakePartitionHost::AnswerParked() {
  std::vector<ExchangeCall> parked;
  {
    absl::MutexLock lock(&mutex_);
    parked.swap(parked_);
  }
  for (ExchangeCall& call : parked) Answer(std::move(call));
}

void FakePartitionHost::DropCancelled() {
  absl::MutexLock lock(&mutex_);
  parked_.erase(std::remove_if(parked_.begin(), parked_.end(),
                               [](const ExchangeCall& call) { return call.cancelled->load(); }),
                parked_.end());
}

}  // namespace muster
