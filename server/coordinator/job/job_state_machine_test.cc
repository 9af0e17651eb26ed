#include "server/coordinator/job/job_state_machine.h"

#include <set>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr v1::JobState kStates[] = {v1::PENDING,   v1::PLACING, v1::RUNNING,  v1::RECOVERING,
                                    v1::SUCCEEDED, v1::FAILED,  v1::CANCELLED};

TEST(JobStateMachineTest, AllowsExactlyTheDocumentedSteps) {
  const std::set<std::pair<v1::JobState, v1::JobState>> allowed = {
      {v1::PENDING, v1::PLACING},      {v1::PLACING, v1::RUNNING},
      {v1::PLACING, v1::RECOVERING},   {v1::RUNNING, v1::RECOVERING},
      {v1::RECOVERING, v1::RUNNING},   {v1::RUNNING, v1::SUCCEEDED},
      {v1::RECOVERING, v1::SUCCEEDED}, {v1::PENDING, v1::FAILED},
      {v1::PLACING, v1::FAILED},       {v1::RUNNING, v1::FAILED},
      {v1::RECOVERING, v1::FAILED},    {v1::PENDING, v1::CANCELLED},
      {v1::PLACING, v1::CANCELLED},    {v1::RUNNING, v1::CANCELLED},
      {v1::RECOVERING, v1::CANCELLED},
  };
  for (v1::JobState from : kStates) {
    for (v1::JobState to : kStates) {
      EXPECT_EQ(CheckTransition("j", from, to).ok(), allowed.contains({from, to}))
          << v1::JobState_Name(from) << " -> " << v1::JobState_Name(to);
    }
  }
}

TEST(JobStateMachineTest, NothingLeavesAFinalState) {
  for (v1::JobState from : kStates) {
    if (!IsFinal(from)) continue;
    for (v1::JobState to : kStates) EXPECT_FALSE(CheckTransition("j", from, to).ok());
  }
}

TEST(JobStateMachineTest, NamesJobAndStates) {
  const absl::Status status = CheckTransition("j7-00ab", v1::SUCCEEDED, v1::RUNNING);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("job j7-00ab cannot go from SUCCEEDED to RUNNING"));
}

TEST(JobStateMachineTest, EveryStateIsPendingActiveOrFinal) {
  for (v1::JobState state : kStates) {
    EXPECT_EQ((state == v1::PENDING) + IsActive(state) + IsFinal(state), 1)
        << v1::JobState_Name(state);
  }
}

}  // namespace
}  // namespace muster
