#include "server/coordinator/history/slot_times.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/status.pb.h"
#include "proto/task_service.pb.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kReports = absl::Milliseconds(250);

v1::ReportProgressRequest TimesReport(double compute, double data, double communication,
                                      uint64_t examples = 10) {
  v1::ReportProgressRequest report;
  report.set_steps(1);
  report.set_examples(examples);
  report.set_compute_seconds(compute);
  report.set_waiting_seconds(data);
  report.set_exposed_communication_seconds(communication);
  report.set_training_seconds(compute + data + communication);
  return report;
}

// Returns a slot that reported for so long.
SlotTimes Slot(double compute, double data, double communication,
               absl::Duration length = absl::Seconds(20), uint64_t examples = 10) {
  SlotTimes slot;
  for (absl::Duration now; now < length; now += kReports) {
    slot.Add(TimesReport(compute, data, communication, examples), now);
  }
  return slot;
}

TEST(SlotTimesTest, HoldsTheLastTenSecondsOrEightReports) {
  SlotTimes slot = Slot(0.2, 0.1, 0.3);
  EXPECT_EQ(slot.parts().size(), 8);
  EXPECT_EQ(slot.sums().steps, 40);
  slot = {};
  for (int i = 0; i < 100; ++i) slot.Add(TimesReport(1, 0, 0), absl::Seconds(30) * i);
  const v1::StepTimes times = ToProto(slot.sums());
  EXPECT_EQ(times.steps(), 8);
  EXPECT_EQ(times.training_seconds(), 8);
  EXPECT_EQ(times.compute_seconds(), 8);
  v1::ReportProgressRequest other = TimesReport(1, 2, 3);
  other.mutable_task()->set_incarnation(7);
  slot.Add(other, absl::Seconds(4000));
  EXPECT_EQ(slot.sums().steps, 1) << "of another task";
  EXPECT_EQ(ToProto(slot.sums()).waiting_seconds(), 2);
  EXPECT_EQ(ToProto(slot.sums()).exposed_communication_seconds(), 3);
}

TEST(SlowSlotsTest, NamesTheSlotThatComputesOrReadsSlowly) {
  // The others wait for it.
  EXPECT_THAT(
      SlowSlots({Slot(0.1, 0, 0.15), Slot(0.2, 0, 0.05), Slot(0.1, 0, 0.15), Slot(0.11, 0, 0.1)}),
      ElementsAre("", "computes 2.0 x as long for an example as the median slot", "", ""));
  EXPECT_THAT(SlowSlots({Slot(0.1, 0.2, 0), Slot(0.1, 0, 0.2)}),
              ElementsAre(HasSubstr("waits for training data and computes 3.0 x"), ""));
  EXPECT_THAT(SlowSlots({Slot(0.1, 0, 0.1), Slot(0.14, 0, 0.06)}), Each(IsEmpty()));
}

TEST(SlowSlotsTest, CallsNobodySlowWithoutOthersOrReports) {
  EXPECT_THAT(SlowSlots({}), IsEmpty());
  EXPECT_THAT(SlowSlots({Slot(1, 0, 0)}), ElementsAre(""));
  EXPECT_THAT(SlowSlots({Slot(1, 0, 0), SlotTimes()}), Each(IsEmpty()));
  // Two parts are too few to tell.
  EXPECT_THAT(SlowSlots({Slot(0.1, 0, 0), Slot(1, 0, 0, absl::Seconds(2))}), Each(IsEmpty()));
  EXPECT_THAT(SlowSlots({Slot(0.1, 0, 0), Slot(1, 0, 0, absl::Seconds(3))}),
              ElementsAre("", HasSubstr("10.0 x")));
}

TEST(SlowSlotsTest, ASlotWithMoreExamplesIsNotSlow) {
  EXPECT_THAT(SlowSlots({Slot(0.1, 0, 0.1), Slot(0.1, 0, 0.1),
                         Slot(0.2, 0, 0, absl::Seconds(20), /*examples=*/20)}),
              Each(IsEmpty()));
}

TEST(SlowSlotsTest, ADifferenceThatIsLittleOfAStepDoesNotMatter) {
  EXPECT_THAT(SlowSlots({Slot(0.01, 0, 0.5), Slot(0.01, 0, 0.5), Slot(0.03, 0, 0.48)}),
              Each(IsEmpty()));
}

TEST(SlowSlotsTest, NoiseMakesNoSlotSlow) {
  // Each report's time varies by a third either way, and each slot stands still once for seconds.
  std::mt19937 random(1);
  std::uniform_real_distribution<double> noise(0.67, 1.33);
  for (int round = 0; round < 200; ++round) {
    std::vector<SlotTimes> slots(8);
    for (absl::Duration now; now < absl::Seconds(12); now += kReports) {
      for (size_t i = 0; i < slots.size(); ++i) {
        const bool pauses = now >= absl::Seconds(i) && now < absl::Seconds(i) + 2 * kReports;
        slots[i].Add(TimesReport(noise(random) * (pauses ? 20 : 1), 0, 0.1), now);
      }
      ASSERT_THAT(SlowSlots(slots), Each(IsEmpty())) << round << " " << now;
    }
  }
}

}  // namespace
}  // namespace muster
