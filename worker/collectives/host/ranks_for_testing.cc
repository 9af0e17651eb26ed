#include "worker/collectives/host/ranks_for_testing.h"

#include <thread>
#include <utility>
#include <vector>

#include "worker/collectives/host/host_communicator.h"

namespace muster {

TestRanks::TestRanks(int size, const InProcessOptions& options)
    : size_(size), options_(options), group_(size, options), all_(size) {}

void TestRanks::Run(const std::function<void(std::unique_ptr<Communicator>)>& body) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    ranks.emplace_back([this, &body, rank] {
      HostCommunicatorOptions options;
      options.same_machine = options_.share_memory;
      body(MakeHostCommunicator(group_.Join(rank), options).value());
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace muster
