#include "worker/collectives/host/communicator_backends_for_testing.h"

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <utility>

#include "worker/collectives/endpoint.h"
#include "worker/collectives/host/host_communicator.h"
#include "worker/collectives/transport/in_process_transport_for_testing.h"

namespace muster {
namespace {

class InProcessTestGroup final : public TestGroup {
 public:
  InProcessTestGroup(int size, const InProcessOptions& options, bool same_machine)
      : group_(size, options) {
    for (int rank = 0; rank < size; ++rank) {
      HostCommunicatorOptions communicator;
      communicator.same_machine = same_machine;
      ranks.push_back(*MakeHostCommunicator(group_.Join(rank), communicator));
    }
  }

  void Kill(int rank) override { group_.Kill(rank); }
  void Stop(int rank) override { group_.Stop(rank); }
  void Continue(int rank) override { group_.Continue(rank); }

 private:
  InProcessGroup group_;
};

Backend InProcess(std::string name, const InProcessOptions& options, bool same_machine) {
  Backend backend;
  backend.name = std::move(name);
  backend.make = [options, same_machine](int size) {
    return std::make_unique<InProcessTestGroup>(size, options, same_machine);
  };
  backend.can_break = true;
  backend.shares_memory = options.share_memory;
  return backend;
}

using OptionsByRank = std::function<HostEndpointOptions(int rank)>;

class EndpointTestGroup final : public TestGroup {
 public:
  EndpointTestGroup(int size, const OptionsByRank& options) {
    CollectiveEndpoint::Group group;
    group.name = "world";
    group.round = 1;
    group.secret = "a secret of the test";
    for (int rank = 0; rank < size; ++rank) {
      endpoints_.push_back(*MakeHostEndpoint(options(rank)));
      group.addresses.push_back(endpoints_[rank]->address());
    }
    ranks.resize(size);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([this, rank, group]() mutable {
        group.rank = rank;
        ranks[rank] = *endpoints_[rank]->Connect(group, absl::Minutes(1));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  ~EndpointTestGroup() override { ranks.clear(); }

 private:
  std::vector<std::unique_ptr<CollectiveEndpoint>> endpoints_;
};

Backend OverUnlikeEndpoints(std::string name, const OptionsByRank& options) {
  Backend backend;
  backend.name = std::move(name);
  backend.make = [options](int size) { return std::make_unique<EndpointTestGroup>(size, options); };
  return backend;
}

Backend OverEndpoints(std::string name, const HostEndpointOptions& options) {
  Backend backend = OverUnlikeEndpoints(std::move(name), [options](int) { return options; });
  backend.shares_memory = options.shared_memory;
  return backend;
}

std::vector<BackendAndSize> Select(const std::vector<Backend>& backends,
                                   const std::vector<int>& sizes, const SizesByBackend& chosen,
                                   bool take_chosen) {
  std::vector<BackendAndSize> selected;
  for (const Backend& backend : backends) {
    const auto of_backend = chosen.find(backend.name);
    for (const int size : sizes) {
      const bool is_chosen = of_backend != chosen.end() &&
                             std::count(of_backend->second.begin(), of_backend->second.end(), size);
      if (is_chosen == take_chosen) selected.emplace_back(backend, size);
    }
  }
  return selected;
}

}  // namespace

void TestGroup::Run(const std::function<void(Communicator& communicator)>& work) {
  std::vector<std::thread> threads;
  for (auto& rank : ranks) {
    if (rank != nullptr) threads.emplace_back([&work, &rank] { work(*rank); });
  }
  for (std::thread& thread : threads) thread.join();
}

void TestGroup::Kill(int rank) { std::abort(); }
void TestGroup::Stop(int rank) { std::abort(); }
void TestGroup::Continue(int rank) { std::abort(); }

const std::vector<Backend>& AllBackends() {
  static const auto* const backends = new std::vector<Backend>({
      InProcess("InProcess", {}, /*same_machine=*/true),
      // Little room, bytes cut anywhere, and the algorithms for ranks on several machines.
      InProcess("Narrow", {.pipe_bytes = 2048, .write_bytes = 999, .share_memory = false},
                /*same_machine=*/false),
      OverEndpoints("SharedMemory", {}),
      OverEndpoints("Tcp", {.shared_memory = false}),
      OverEndpoints("Tls", {.shared_memory = false, .tls = true}),
  });
  return *backends;
}

const Backend& MixedBackend() {
  static const auto* const backend = new Backend(OverUnlikeEndpoints(
      "Mixed", [](int rank) { return HostEndpointOptions{.shared_memory = rank % 2 == 0}; }));
  return *backend;
}

std::vector<BackendAndSize> ChosenOf(const std::vector<Backend>& backends,
                                     const std::vector<int>& sizes, const SizesByBackend& chosen) {
  return Select(backends, sizes, chosen, /*take_chosen=*/true);
}

std::vector<BackendAndSize> OthersOf(const std::vector<Backend>& backends,
                                     const std::vector<int>& sizes, const SizesByBackend& chosen) {
  return Select(backends, sizes, chosen, /*take_chosen=*/false);
}

}  // namespace muster
