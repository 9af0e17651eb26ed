// OpsContractTest of HostOps.
#include <memory>
#include <vector>

#include "common/compute/host_ops.h"
#include "common/compute/ops_contract.h"

namespace muster {
namespace {

class HostOpsUnderTest final : public OpsUnderTest {
 public:
  Ops& ops() override { return ops_; }
  void* Allocate(size_t bytes) override {
    memory_.push_back(std::make_unique<unsigned char[]>(bytes));
    return memory_.back().get();
  }
  std::vector<int32_t> TokenOrder(const std::vector<int32_t>&, int64_t) override { return {}; }

 private:
  HostOps ops_;
  std::vector<std::unique_ptr<unsigned char[]>> memory_;
};

absl::StatusOr<std::unique_ptr<OpsUnderTest>> MakeHostOps() {
  return std::make_unique<HostOpsUnderTest>();
}

constexpr OpsImplementation kHost = {"Host", MakeHostOps, OpsImplementation::Match::kBits};

INSTANTIATE_TEST_SUITE_P(Host, OpsContractTest, AllTypesOf(kHost), NameOfOpsTest);
INSTANTIATE_TEST_SUITE_P(Host, OpsGeluContractTest, AllTypesOf(kHost), NameOfOpsTest);

}  // namespace
}  // namespace muster
