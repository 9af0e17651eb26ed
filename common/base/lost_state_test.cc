#include "common/base/lost_state.h"

#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(LostStateTest, TravelsWithTheStatusAndTheFirstOneHolds) {
  const absl::Status plain = absl::FailedPreconditionError("the log is gone");
  EXPECT_EQ(LostStateOf(plain), LostState::kNone);
  const absl::Status marked = WithLostState(plain, LostState::kServerState);
  EXPECT_EQ(marked.code(), plain.code());
  EXPECT_EQ(std::string(marked.message()), "the log is gone");
  EXPECT_EQ(LostStateOf(marked), LostState::kServerState);
  EXPECT_EQ(LostStateOf(WithLostState(marked, LostState::kCheckpoint)), LostState::kServerState);
  EXPECT_EQ(LostStateOf(WithLostState(plain, LostState::kCheckpoint)), LostState::kCheckpoint);
  EXPECT_TRUE(WithLostState(absl::OkStatus(), LostState::kCheckpoint).ok());
}

TEST(LostStateTest, OnlyDataLossIsOneByItself) {
  EXPECT_EQ(LostStateOf(DataLossIs(absl::DataLossError("a bit"), LostState::kCheckpoint)),
            LostState::kCheckpoint);
  EXPECT_EQ(LostStateOf(DataLossIs(absl::FailedPreconditionError("newer"), LostState::kCheckpoint)),
            LostState::kNone);
  EXPECT_TRUE(DataLossIs(absl::OkStatus(), LostState::kCheckpoint).ok());
}

}  // namespace
}  // namespace muster
