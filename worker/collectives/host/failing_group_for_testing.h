#ifndef MUSTER_WORKER_COLLECTIVES_HOST_FAILING_GROUP_FOR_TESTING_H_
#define MUSTER_WORKER_COLLECTIVES_HOST_FAILING_GROUP_FOR_TESTING_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/host/communicator_backends_for_testing.h"

namespace muster {

// A timeout that never ends a call.
constexpr absl::Duration kLong = absl::Minutes(5);
// The rank that errs.
constexpr int kCulprit = 1;

// One rank's memory and some calls on it.
struct Caller {
  std::vector<float> values = std::vector<float>(200'000, 1);
  std::vector<float> result = std::vector<float>(1000);

  CollectiveCall AllReduce(size_t count, absl::string_view label = "") {
    return {.kind = Collective::kAllReduce,
            .in = values.data(),
            .out = values.data(),
            .count = count,
            .timeout = kLong,
            .label = label};
  }
  CollectiveCall AllGather(size_t count) {
    return {.kind = Collective::kAllGather,
            .in = values.data(),
            .out = result.data(),
            .count = count,
            .timeout = kLong};
  }
};

// A group of some ranks over some backend, and what all its ranks must say once it has failed.
class FailingGroupTest : public testing::TestWithParam<std::tuple<Backend, int>> {
 public:
  static std::string NameOf(const testing::TestParamInfo<std::tuple<Backend, int>>& info) {
    return absl::StrCat(std::get<0>(info.param).name, std::get<1>(info.param));
  }

  // Returns the groups that a default run of the tests has of each backend, and those that only an
  // exhaustive one has.
  static std::vector<BackendAndSize> Chosen(const std::vector<Backend>& backends) {
    return ChosenOf(backends, Sizes(backends), DefaultSizes());
  }
  static std::vector<BackendAndSize> Others(const std::vector<Backend>& backends) {
    return OthersOf(backends, Sizes(backends), DefaultSizes());
  }

 protected:
  FailingGroupTest() : group_(backend().make(size())) {}

  static const Backend& backend() { return std::get<0>(GetParam()); }
  static int size() { return std::get<1>(GetParam()); }
  TestGroup& group() { return *group_; }

  // Makes two calls that go well, then `last` on every rank. Returns by rank what `last` returns,
  // or what ends the second call on a slow rank while another is already in the next one.
  std::vector<absl::Status> Run(const std::function<absl::Status(Communicator&, Caller&)>& last) {
    std::vector<absl::Status> statuses(size());
    group_->Run([&](Communicator& rank) {
      Caller caller;
      absl::Status& status = statuses[rank.rank()];
      status = rank.Run(caller.AllReduce(5));
      if (status.ok()) status = rank.Run(caller.AllReduce(50'000));
      if (status.ok()) status = last(rank, caller);
    });
    return statuses;
  }

  // Every rank has the same error, with this code and text, and returns it from now on.
  void ExpectFailed(const std::vector<absl::Status>& statuses, absl::StatusCode code,
                    const testing::Matcher<std::string>& text) {
    ExpectSame(statuses, code, text);
    std::vector<absl::Status> later(size()), started(size());
    group_->Run([&](Communicator& rank) {
      Caller caller;
      later[rank.rank()] = rank.Run(caller.AllReduce(5));
      started[rank.rank()] = rank.Start(caller.AllReduce(5))->Wait(kLong);
    });
    ExpectSame(later, code, text);
    ExpectSame(started, code, text);
  }

  static void ExpectSame(const std::vector<absl::Status>& statuses, absl::StatusCode code,
                         const testing::Matcher<std::string>& text) {
    for (int rank = 0; rank < statuses.size(); ++rank) {
      EXPECT_EQ(statuses[rank].code(), code) << "rank " << rank << ": " << statuses[rank];
      EXPECT_THAT(std::string(statuses[rank].message()), text) << "rank " << rank;
      EXPECT_EQ(statuses[rank].message(), statuses[0].message()) << "rank " << rank;
    }
  }

  std::unique_ptr<TestGroup> group_;

 private:
  static SizesByBackend DefaultSizes() {
    return {{"InProcess", {2, 5}}, {"Narrow", {3}}, {"SharedMemory", {3}},
            {"Tcp", {3}},          {"Tls", {2}},    {"Mixed", {3}}};
  }
  // Backends that are mixed have three ranks or more.
  static std::vector<int> Sizes(const std::vector<Backend>& backends) {
    return backends[0].name == MixedBackend().name ? std::vector<int>{3, 5}
                                                   : std::vector<int>{2, 3, 5};
  }
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_FAILING_GROUP_FOR_TESTING_H_
