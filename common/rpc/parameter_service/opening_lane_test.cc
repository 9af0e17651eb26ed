#include "common/rpc/parameter_service/opening_lane.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Notes each call with the lane's name, and keeps it.
class NotingLane final : public ExchangeLane {
 public:
  NotingLane(std::string name, std::vector<std::string>& calls,
             std::vector<ParameterClient::Done>& kept)
      : name_(std::move(name)), calls_(calls), kept_(kept) {}

  void Call(v1::ExchangeRequest request, Payload, absl::Span<std::byte>,
            ParameterClient::Done done) override {
    calls_.push_back(absl::StrCat(name_, request.clock()));
    kept_.push_back(std::move(done));
  }
  void Abort(absl::Status) override { calls_.push_back(name_ + " aborted"); }

 private:
  const std::string name_;
  std::vector<std::string>& calls_;
  std::vector<ParameterClient::Done>& kept_;
};

class OpeningLaneTest : public ::testing::Test {
 protected:
  std::unique_ptr<NotingLane> Lane(const std::string& name) {
    return std::make_unique<NotingLane>(name, calls_, kept_);
  }

  void Call(uint64_t clock) {
    v1::ExchangeRequest request;
    request.set_clock(clock);
    lane_.Call(std::move(request), {}, {}, [this](absl::StatusOr<ExchangeResult>) { ++answered_; });
  }

  void Answer(size_t call) { std::exchange(kept_[call], nullptr)(absl::UnknownError("an answer")); }

  // The lanes note their end in calls_, so they come after it.
  std::vector<std::string> calls_;
  std::vector<ParameterClient::Done> kept_;
  int answered_ = 0;
  OpeningLane lane_{"s0:1", {.window_bytes = 1 << 20, .max_queued_bytes = 1 << 20}};
};

TEST_F(OpeningLaneTest, CallsWaitInOrderUntilItIsOpen) {
  Call(1);
  Call(2);
  EXPECT_THAT(calls_, IsEmpty());
  lane_.Open(Lane("a"), OpeningLane::Stay::kForGood);
  Call(3);
  EXPECT_THAT(calls_, ElementsAre("a1", "a2", "a3"));
}

TEST_F(OpeningLaneTest, AMakeshiftIsReplacedOnceAllItsCallsAreAnswered) {
  Call(1);
  lane_.Open(Lane("a"), OpeningLane::Stay::kAsMakeshift);
  Call(2);
  lane_.Replace(Lane("b"));
  Answer(0);
  Call(3);
  EXPECT_THAT(calls_, ElementsAre("a1", "a2", "a3")) << "it must not overtake the second";
  Answer(1);
  Answer(2);
  EXPECT_EQ(answered_, 3);
  Call(4);
  Call(5);
  EXPECT_THAT(calls_, ElementsAre("a1", "a2", "a3", "b4", "b5"));
}

TEST_F(OpeningLaneTest, AnAbortReachesTheLaneThatIsToReplaceAnother) {
  lane_.Open(Lane("a"), OpeningLane::Stay::kAsMakeshift);
  lane_.Replace(Lane("b"));
  lane_.Abort(absl::CancelledError("the end"));
  EXPECT_THAT(calls_, ElementsAre("a aborted", "b aborted"));
}

TEST_F(OpeningLaneTest, ALaneThatComesAfterAnAbortIsAborted) {
  lane_.Open(Lane("a"), OpeningLane::Stay::kAsMakeshift);
  lane_.Abort(absl::CancelledError("the end"));
  lane_.Replace(Lane("b"));
  EXPECT_THAT(calls_, ElementsAre("a aborted", "b aborted"));
}

}  // namespace
}  // namespace muster
