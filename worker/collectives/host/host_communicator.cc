#include "worker/collectives/host/host_communicator.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/collectives/host/call_engine.h"
#include "worker/collectives/host/call_errors.h"
#include "worker/collectives/host/call_queue.h"
#include "worker/collectives/host/symmetric_buffers.h"

namespace muster {
namespace {

// Timeout of the steps of Split and Allocate.
constexpr absl::Duration kTimeout = absl::Minutes(1);

class HostCommunicator final : public Communicator {
 public:
  HostCommunicator(std::unique_ptr<Transport> transport, const HostCommunicatorOptions& options)
      : transport_(std::move(transport)),
        same_machine_(options.same_machine),
        live_(options.live),
        errors_(options.name, transport_->size(), options.rank_names),
        recorder_(options.name),
        buffers_(transport_->rank()),
        engine_(*transport_, errors_, buffers_, recorder_, options.same_machine) {
    if (live_ != nullptr) live_->Add(this);
  }

  ~HostCommunicator() override {
    if (live_ != nullptr) live_->Remove(this);
    if (queue_ != nullptr) queue_->Close();
  }

  int rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }

  absl::Status Run(const CollectiveCall& call) override {
    if (queue_ != nullptr) return queue_->Run(call);
    CallOutcome outcome;
    engine_.Begin(call, &outcome);
    while (!outcome.ended) {
      if (!engine_.Step()) engine_.Block(absl::InfiniteDuration());
    }
    return outcome.status;
  }

  std::shared_ptr<Work> Start(const CollectiveCall& call) override {
    if (queue_ == nullptr) {
      queue_ = std::make_shared<CallQueue>(engine_, *transport_,
                                           [this](const std::string& reason) { Abort(reason); });
    }
    return queue_->Start(call);
  }

  absl::StatusOr<std::unique_ptr<CollectiveBuffer>> Allocate(size_t bytes) override;
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int colour, int key) override;

  void Abort(const std::string& reason) override {
    transport_->Abort(errors_.Aborted(rank(), reason));
  }

  const FlightRecorder& recorder() const override { return recorder_; }
  CollectiveTraffic traffic() const override { return engine_.traffic(); }

 private:
  // Returns the values of all ranks, `count` of each, by rank.
  absl::StatusOr<std::vector<int64_t>> Gather(std::vector<int64_t> own, absl::string_view label) {
    std::vector<int64_t> all(own.size() * size());
    MUSTER_RETURN_IF_ERROR(Run({.kind = Collective::kAllGather,
                                .dtype = DType::kInt64,
                                .in = own.data(),
                                .out = all.data(),
                                .count = own.size(),
                                .timeout = kTimeout,
                                .label = label}));
    return all;
  }

  // Ends the group, and no call is under way.
  absl::Status Fail(const absl::Status& status) {
    engine_.Fail(status);
    return status;
  }

  // First made and last gone.
  const std::unique_ptr<Transport> transport_;
  const bool same_machine_;
  const std::shared_ptr<LiveCommunicators> live_;
  const CallErrors errors_;
  FlightRecorder recorder_;
  SymmetricBuffers buffers_;
  CallEngine engine_;
  // Set once a call has been started.
  std::shared_ptr<CallQueue> queue_;
  uint64_t splits_ = 0;
};

absl::StatusOr<std::unique_ptr<CollectiveBuffer>> HostCommunicator::Allocate(size_t bytes) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes,
                          Gather({static_cast<int64_t>(bytes)}, "allocate"));
  for (int other = 1; other < size(); ++other) {
    if (sizes[other] == sizes[0]) continue;
    return Fail(absl::FailedPreconditionError(absl::StrCat(
        errors_.group(), ": ", errors_.rank(0), " allocates ", sizes[0], " bytes where ",
        errors_.rank(other), " allocates ", sizes[other], "; all ranks must ask for the same")));
  }
  if (bytes == 0 || size() == 1) return buffers_.Add(nullptr, bytes);
  absl::StatusOr<std::unique_ptr<SymmetricMemory>> memory = transport_->Allocate(bytes, kTimeout);
  // If one rank has no shared memory, none uses it.
  MUSTER_ASSIGN_OR_RETURN(const std::vector<int64_t> shared, Gather({memory.ok()}, "allocate"));
  const bool all = std::count(shared.begin(), shared.end(), 1) == size();
  return buffers_.Add(all ? *std::move(memory) : nullptr, bytes);
}

absl::StatusOr<std::unique_ptr<Communicator>> HostCommunicator::Split(int colour, int key) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<int64_t> all, Gather({colour, key}, "split"));
  const uint64_t id = ++splits_ << 32 | static_cast<uint32_t>(colour);
  if (colour < 0) return nullptr;
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (all[2 * rank] == colour) ranks.push_back(rank);
  }
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](int a, int b) { return all[2 * a + 1] < all[2 * b + 1]; });
  absl::StatusOr<std::unique_ptr<Transport>> transport = transport_->Subgroup(ranks, id, kTimeout);
  if (!transport.ok()) {
    // The transport's error is complete, such as an Abort meanwhile: all ranks return its words.
    if (errors_.IsComplete(transport.status())) return Fail(transport.status());
    return Fail(
        absl::Status(transport.status().code(),
                     absl::StrCat(errors_.group(), ": split into colour ", colour, " on ",
                                  errors_.rank(rank()), ": ", transport.status().message())));
  }
  HostCommunicatorOptions options;
  options.name = absl::StrCat(errors_.group(), "/", colour);
  for (const int rank : ranks) options.rank_names.push_back(errors_.rank(rank));
  options.same_machine = same_machine_;
  options.live = live_;
  return MakeHostCommunicator(*std::move(transport), options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> MakeHostCommunicator(
    std::unique_ptr<Transport> transport, const HostCommunicatorOptions& options) {
  if (!options.rank_names.empty() && options.rank_names.size() != transport->size()) {
    return absl::InvalidArgumentError(absl::StrCat("rank_names has ", options.rank_names.size(),
                                                   " entries in a group of ", transport->size(),
                                                   " ranks; give none, or one for each"));
  }
  return std::make_unique<HostCommunicator>(std::move(transport), options);
}

}  // namespace muster
