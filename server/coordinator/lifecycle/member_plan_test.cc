#include "server/coordinator/lifecycle/member_plan.h"

#include <limits>
#include <vector>

#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr SlotSituation kTrains = {.trains = true, .placed = true};
constexpr SlotSituation kMustLeave = {.trains = true, .placed = true, .leaves = true};
constexpr SlotSituation kLost = {.trains = true};
constexpr SlotSituation kAwaited = {.trains = true, .awaited = true};
constexpr SlotSituation kNew = {.placed = true};
constexpr SlotSituation kUnused = {};

TEST(MemberPlanTest, NothingChangesWithoutNeed) {
  const MemberPlan plan = PlanMembers({kTrains, kUnused, kTrains}, 1);
  EXPECT_EQ(plan.change, MemberChange::kNone);
  EXPECT_THAT(plan.members, ElementsAre(0, 2));
}

TEST(MemberPlanTest, WhoJoinsOrMustLeaveChangesMembersAfterAStep) {
  const MemberPlan plan = PlanMembers({kTrains, kMustLeave, kNew, kTrains, kNew}, 1);
  EXPECT_EQ(plan.change, MemberChange::kPlanned);
  EXPECT_THAT(plan.members, ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(plan.joining, ElementsAre(2, 4));
  EXPECT_THAT(plan.leaving, ElementsAre(1));
  EXPECT_THAT(plan.lost, IsEmpty());
}

TEST(MemberPlanTest, TheOthersGoOnWithoutALostSlotOnceItIsNotAwaited) {
  EXPECT_EQ(PlanMembers({kTrains, kAwaited, kNew}, 1).change, MemberChange::kNone);
  const MemberPlan plan = PlanMembers({kTrains, kLost, kMustLeave}, 1);
  EXPECT_EQ(plan.change, MemberChange::kAtOnce);
  EXPECT_THAT(plan.members, ElementsAre(0));
  EXPECT_THAT(plan.lost, ElementsAre(1));
}

TEST(MemberPlanTest, TooFewSlotsDoNotGoOn) {
  EXPECT_EQ(PlanMembers({kTrains, kLost, kLost}, 2).change, MemberChange::kNone);
  EXPECT_EQ(PlanMembers({kTrains, kMustLeave}, 2).change, MemberChange::kNone);
  EXPECT_EQ(PlanMembers({kLost}, 0).change, MemberChange::kNone);
  EXPECT_EQ(PlanMembers({kTrains, kLost, kTrains}, 2).change, MemberChange::kAtOnce);
}

TEST(MemberPlanTest, TasksCanStillHearOfTheEnd) {
  EXPECT_EQ(EndClock(7, 0), 8) << "each makes the step that it is in";
  EXPECT_EQ(EndClock(7, 0.2), 8);
  EXPECT_EQ(EndClock(7, 40), 48);
  EXPECT_EQ(EndClock(7, std::numeric_limits<double>::infinity()), 8);
}

TEST(MemberPlanTest, TheNextGenerationKeepsWorkersAndTables) {
  v1::JobRecord record;
  *record.mutable_spec() = SmallJob();
  record.set_generation(4);
  record.set_start_clock(5);
  record.set_has_run(true);
  record.mutable_met()->set_training_examples(80);
  for (const uint32_t slot : {0, 1, 2}) {
    v1::SlotRecord& holder = *record.add_slots();
    holder.set_incarnation(3);
    holder.set_expect_state(true);
    if (slot != 1) holder.set_worker_id("w");
    if (slot < 2) record.add_member_slots(slot);
  }
  TakeOver({0, 2}, record);
  EXPECT_EQ(record.generation(), 5);
  EXPECT_EQ(record.takes_over_generation(), 4);
  EXPECT_THAT(record.member_slots(), ElementsAre(0, 2));
  EXPECT_FALSE(record.has_met());
  EXPECT_FALSE(record.has_run());
  EXPECT_EQ(record.expected_data().training_examples(), 80);
  EXPECT_EQ(record.slots(0).incarnation(), 4);
  EXPECT_EQ(record.slots(0).worker_id(), "w");
  EXPECT_FALSE(record.slots(0).expect_state()) << "its servers have an earlier generation's tables";
  EXPECT_EQ(record.slots(2).worker_id(), "w");

  TakeOver({2}, record);
  EXPECT_EQ(record.generation(), 6);
  EXPECT_EQ(record.takes_over_generation(), 4) << "generation 5 may have opened no tables";
  EXPECT_EQ(record.slots(0).worker_id(), "");
  EXPECT_EQ(record.slots(0).incarnation(), 5) << "its task is fenced";
}

}  // namespace
}  // namespace muster
