#include "tests/benchmarks/collectives/collectives_member.h"

#include <iostream>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "common/base/status_macros.h"
#include "tests/benchmarks/collectives/collectives_rank.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/endpoint.h"

namespace muster {
namespace {

class MusterGroup final : public MeasuredGroup {
 public:
  enum class Memory { kUser, kCommunicator };

  // Borrows the communicator.
  MusterGroup(Communicator& communicator, Memory memory)
      : communicator_(communicator), memory_(memory) {}

  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }

  absl::StatusOr<float*> Open(size_t count) override {
    if (memory_ == Memory::kUser) {
      user_.assign(count, 0);
      call_.out = user_.data();
    } else {
      buffer_.reset();
      MUSTER_ASSIGN_OR_RETURN(buffer_, communicator_.Allocate(count * sizeof(float)));
      call_.out = buffer_->bytes().data();
    }
    call_.kind = Collective::kAllReduce;
    call_.in = call_.out;
    call_.count = count;
    return static_cast<float*>(call_.out);
  }

  absl::Status AllReduce() override { return communicator_.Run(call_); }
  absl::Status Barrier() override { return communicator_.Run(CollectiveCall()); }

 private:
  Communicator& communicator_;
  const Memory memory_;
  std::vector<float> user_;
  std::unique_ptr<CollectiveBuffer> buffer_;
  CollectiveCall call_;
};

absl::StatusOr<std::unique_ptr<Communicator>> Meet(CollectiveEndpoint& endpoint) {
  std::cout << "address " << absl::BytesToHexString(endpoint.address()) << std::endl;
  std::string line, address;
  std::getline(std::cin, line);
  std::istringstream words(line);
  CollectiveEndpoint::Group group;
  group.name = "world";
  group.round = 1;
  words >> group.rank >> group.secret;
  while (words >> address) group.addresses.push_back(absl::HexStringToBytes(address));
  if (group.addresses.empty()) return absl::CancelledError("the benchmark has ended");
  return endpoint.Connect(group, absl::Seconds(30));
}

absl::Status Measure(const std::string& transport, int connections, const std::string& text) {
  MUSTER_ASSIGN_OR_RETURN(const auto cases, ParseCases(text));
  HostEndpointOptions options;
  options.shared_memory = transport == "shared-memory";
  options.tls = transport == "tls";
  options.connections = connections;
  MUSTER_ASSIGN_OR_RETURN(const auto endpoint, MakeHostEndpoint(options));
  MUSTER_ASSIGN_OR_RETURN(const auto communicator, Meet(*endpoint));
  MusterGroup user(*communicator, MusterGroup::Memory::kUser);
  MUSTER_RETURN_IF_ERROR(MeasureAllReduce(user, "user", cases, std::cout));
  if (!options.shared_memory) return absl::OkStatus();
  MusterGroup buffers(*communicator, MusterGroup::Memory::kCommunicator);
  return MeasureAllReduce(buffers, "communicator", cases, std::cout);
}

}  // namespace

int RunCollectivesMember(const std::string& transport, int connections, const std::string& cases) {
  return EndOfRank(Measure(transport, connections, cases), std::cout);
}

}  // namespace muster
