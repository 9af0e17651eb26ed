#include "server/coordinator/lifecycle/left_workers.h"

#include "gtest/gtest.h"
#include "server/coordinator/cluster/cluster_capacity.h"

namespace muster {
namespace {

TEST(LeftWorkersTest, RemembersWhomAJobHasLeftAndWhyAtFirst) {
  v1::JobRecord record;
  EXPECT_FALSE(HasLeft(record, "w1"));
  Leave(record, "w1", "computed other bits", 5);
  Leave(record, "w1", "was slow", 6);
  Leave(record, "w3", "was slow", 7);
  EXPECT_TRUE(HasLeft(record, "w1"));
  EXPECT_FALSE(HasLeft(record, "w"));
  ASSERT_EQ(record.left_workers_size(), 2);
  EXPECT_EQ(record.left_workers(0).reason(), "computed other bits");
  EXPECT_EQ(record.left_workers(0).unix_ms(), 5);
  EXPECT_EQ(record.left_workers(1).worker_id(), "w3");
}

TEST(LeftWorkersTest, FindsTheSlotsThatAreStillThere) {
  v1::JobRecord record;
  for (const char* worker : {"w1", "w0", "w1", "w1"}) record.add_slots()->set_worker_id(worker);
  record.mutable_slots(3)->set_done(true);
  EXPECT_TRUE(SlotsOnLeftWorkers(record).empty());
  Leave(record, "w1", "was slow", 5);
  EXPECT_EQ(SlotsOnLeftWorkers(record), std::vector<uint32_t>({0, 2}));
}

TEST(LeftWorkersTest, PlacementPassesOverThem) {
  v1::JobRecord record;
  record.mutable_spec()->set_workers(1);
  Leave(record, "w0", "was slow", 5);
  ClusterCapacity capacity{.workers = {{.id = "w0", .slots = 8, .free_slots = 8},
                                       {.id = "w1", .slots = 1, .free_slots = 1}}};
  const auto place = PlaceSlot(SlotDemandOf(record), {"w0"}, capacity);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->worker_id, "w1");
}

}  // namespace
}  // namespace muster
