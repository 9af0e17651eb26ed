#include "worker/runtime/task/in_process_endpoints_for_testing.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/collectives/host/host_communicator.h"

namespace muster {
namespace {

// Calls the hook before each call, and passes everything on.
class HookedCommunicator final : public Communicator {
 public:
  HookedCommunicator(std::unique_ptr<Communicator> inner, std::function<void(CollectiveCall&)> hook)
      : inner_(std::move(inner)), hook_(std::move(hook)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  absl::Status Run(const CollectiveCall& call) override {
    CollectiveCall made = call;
    hook_(made);
    return inner_->Run(made);
  }
  std::shared_ptr<Work> Start(const CollectiveCall& call) override {
    CollectiveCall made = call;
    hook_(made);
    return inner_->Start(made);
  }
  absl::StatusOr<std::unique_ptr<CollectiveBuffer>> Allocate(size_t bytes) override {
    return inner_->Allocate(bytes);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int colour, int key) override {
    MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> part, inner_->Split(colour, key));
    if (part == nullptr) return nullptr;
    return std::make_unique<HookedCommunicator>(std::move(part), hook_);
  }
  void Abort(const std::string& reason) override { inner_->Abort(reason); }
  const FlightRecorder& recorder() const override { return inner_->recorder(); }
  CollectiveTraffic traffic() const override { return inner_->traffic(); }

 private:
  const std::unique_ptr<Communicator> inner_;
  const std::function<void(CollectiveCall&)> hook_;
};

}  // namespace

class InProcessEndpoints::Endpoint final : public CollectiveEndpoint {
 public:
  Endpoint(InProcessEndpoints& endpoints, std::string name)
      : endpoints_(endpoints), name_(std::move(name)) {}

  std::string address() const override { return name_; }
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(const Group& group,
                                                        absl::Duration timeout) override {
    return endpoints_.Connect(name_, group, timeout, live_);
  }
  void Abort(const std::string& reason) override { live_->Abort(reason); }

 private:
  InProcessEndpoints& endpoints_;
  const std::string name_;
  const std::shared_ptr<LiveCommunicators> live_ = std::make_shared<LiveCommunicators>();
};

std::unique_ptr<CollectiveEndpoint> InProcessEndpoints::Make(const std::string& name) {
  return std::make_unique<Endpoint>(*this, name);
}

void InProcessEndpoints::Kill(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  dead_.insert(name);
  for (auto& [round, group] : groups_) {
    const auto rank = group.rank_of.find(name);
    if (rank != group.rank_of.end()) group.ranks->Kill(rank->second);
  }
}

absl::StatusOr<std::unique_ptr<Communicator>> InProcessEndpoints::Connect(
    const std::string& name, const CollectiveEndpoint::Group& asked, absl::Duration timeout,
    std::shared_ptr<LiveCommunicators> live) {
  std::unique_ptr<Transport> transport;
  {
    absl::MutexLock lock(&mutex_);
    Group& group = groups_[asked.round];
    if (group.ranks == nullptr) {
      group.size = static_cast<int>(asked.addresses.size());
      group.ranks = std::make_unique<InProcessGroup>(group.size);
      for (int rank = 0; rank < group.size; ++rank) group.rank_of[asked.addresses[rank]] = rank;
    }
    if (dead_.count(name) > 0) return absl::UnavailableError("this task is dead");
    transport = group.ranks->Join(asked.rank);
    ++group.joined;
    const auto all = [&group]() { return group.joined == group.size; };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&all), timeout)) {
      return absl::UnavailableError(
          absl::StrCat("only ", group.joined, " of ", group.size, " ranks came"));
    }
  }
  HostCommunicatorOptions options;
  options.name = asked.name;
  options.rank_names = asked.names;
  options.live = std::move(live);
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator,
                          MakeHostCommunicator(std::move(transport), options));
  if (hook_ == nullptr) return communicator;
  return std::make_unique<HookedCommunicator>(
      std::move(communicator), [this, name](CollectiveCall& call) { hook_(name, call); });
}

}  // namespace muster
