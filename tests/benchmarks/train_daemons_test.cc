#include "tests/benchmarks/train_daemons.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(TrainDaemonsTest, TurnsOfAsManyStepsAreOneLongOne) {
  // 100 items in 1 s and in 4 s: 200 in 5 s.
  const DaemonFigures quick = {.items_per_second = 100,
                               .compute = 0.5,
                               .communication = 0.1,
                               .waiting = 0.2,
                               .processor_seconds_per_1000 = 4};
  const DaemonFigures slow = {.items_per_second = 25,
                              .compute = 1.5,
                              .communication = 0.3,
                              .waiting = 0.4,
                              .processor_seconds_per_1000 = 6};
  const DaemonFigures mean = MeanOf({quick, slow});
  EXPECT_DOUBLE_EQ(mean.items_per_second, 40);
  EXPECT_DOUBLE_EQ(mean.compute, 1);
  EXPECT_DOUBLE_EQ(mean.communication, 0.2);
  EXPECT_DOUBLE_EQ(mean.waiting, 0.3);
  EXPECT_DOUBLE_EQ(mean.processor_seconds_per_1000, 5);
}

TEST(TrainDaemonsTest, NamesTellCasesApart) {
  std::set<std::string> names;
  for (const DaemonCase& one : DaemonCases("text", DaemonSteps::kFull)) {
    EXPECT_TRUE(names.insert(one.name).second) << one.name;
    EXPECT_EQ(one.threads(), 2) << one.name;
  }
  EXPECT_EQ(names.size(), 5);
}

}  // namespace
}  // namespace muster
