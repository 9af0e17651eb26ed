#ifndef MUSTER_WORKER_COLLECTIVES_HOST_SOUND_GROUP_FOR_TESTING_H_
#define MUSTER_WORKER_COLLECTIVES_HOST_SOUND_GROUP_FOR_TESTING_H_

#include <cstddef>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/collectives/host/communicator_backends_for_testing.h"

namespace muster {

// Numbers of elements around what is treated in another way: none, one, and odd ones.
inline constexpr size_t kContractSizes[] = {0, 1, 2, 3, 7, 1023};

// Tests on groups of every backend and of several sizes in which no rank fails.
class SoundGroupTest : public testing::TestWithParam<BackendAndSize> {
 public:
  static std::string NameOf(const testing::TestParamInfo<BackendAndSize>& info) {
    return absl::StrCat(std::get<0>(info.param).name, std::get<1>(info.param));
  }
  // Return the groups of a default run of tests, and those of an exhaustive one.
  static std::vector<BackendAndSize> Chosen(const std::vector<Backend>& backends) {
    return ChosenOf(backends, Sizes(backends), DefaultSizes());
  }
  static std::vector<BackendAndSize> Others(const std::vector<Backend>& backends) {
    return OthersOf(backends, Sizes(backends), DefaultSizes());
  }

 protected:
  static int size() { return std::get<1>(GetParam()); }
  static std::unique_ptr<TestGroup> Group() { return std::get<0>(GetParam()).make(size()); }

 private:
  // By default each backend has sizes that are a power of two and that are none, and one group has
  // eight ranks.
  static SizesByBackend DefaultSizes() {
    return {{"InProcess", {1, 3, 6}}, {"Narrow", {2, 5}}, {"SharedMemory", {4, 8}},
            {"Tcp", {3, 4}},          {"Tls", {2, 3}},    {"Mixed", {3, 4}}};
  }
  // Backends that are mixed have three ranks or more.
  static std::vector<int> Sizes(const std::vector<Backend>& backends) {
    return backends[0].name == MixedBackend().name ? std::vector<int>{3, 4, 5, 6, 7, 8}
                                                   : std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 15};
  }
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_SOUND_GROUP_FOR_TESTING_H_
