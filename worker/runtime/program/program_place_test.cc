#include "worker/runtime/program/program_place.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/task_service.pb.h"

namespace muster {
namespace {

using testing::Contains;
using testing::Not;
using testing::StartsWith;

v1::TaskOrder Order(uint32_t slot, const std::string& worker) {
  v1::TaskOrder order;
  order.set_job_id("j1-0000");
  order.set_slot(slot);
  order.set_generation(3);
  order.set_incarnation(7);
  order.set_worker_id(worker);
  order.mutable_spec()->set_workers(4);
  order.mutable_spec()->mutable_model()->mutable_program()->add_command("true");
  return order;
}

// Slots 0 and 2 on worker a, 1 and 3 on worker b.
v1::RendezvousReply Round() {
  v1::RendezvousReply round;
  for (uint32_t slot = 0; slot < 4; ++slot) {
    v1::ProgramEndpoint endpoint;
    endpoint.set_worker_id(slot % 2 == 0 ? "a" : "b");
    endpoint.set_device(10 + slot);
    if (slot == 0) {
      endpoint.set_host("host-a");
      endpoint.set_port(1234);
    }
    v1::CollectivePeer& peer = *round.add_peers();
    peer.set_slot(slot);
    peer.set_endpoint(endpoint.SerializeAsString());
  }
  return round;
}

TEST(ProgramPlaceTest, LocalRanksAndDevicesAreThoseOfTheSameWorker) {
  const auto place = PlaceInRound(Round(), Order(3, "b"));
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->rank, 3u);
  EXPECT_EQ(place->world_size, 4u);
  EXPECT_EQ(place->local_rank, 1u);
  EXPECT_EQ(place->local_world_size, 2u);
  EXPECT_EQ(place->group_rank, 1u);
  EXPECT_EQ(place->group_world_size, 2u);
  EXPECT_EQ(place->master_host, "host-a");
  EXPECT_EQ(place->master_port, 1234u);
  EXPECT_EQ(place->devices, "11,13");
}

TEST(ProgramPlaceTest, RefusesRoundsThatCannotBe) {
  EXPECT_FALSE(PlaceInRound(Round(), Order(4, "a")).ok());
  v1::RendezvousReply broken = Round();
  broken.mutable_peers(1)->set_endpoint("\xff");
  EXPECT_FALSE(PlaceInRound(broken, Order(0, "a")).ok());
}

TEST(ProgramPlaceTest, TheEnvironmentHasTheJobsOwnVariablesButMustersWin) {
  v1::TaskOrder order = Order(3, "b");
  auto& own = *order.mutable_spec()->mutable_model()->mutable_program()->mutable_environment();
  own["PATH"] = "/opt/bin";
  own["OWN"] = "x=y";
  own["RANK"] = "99";
  order.mutable_spec()->mutable_model()->mutable_program()->set_max_restarts(5);
  const auto environment = ProgramEnvironment(
      order, *PlaceInRound(Round(), order),
      {.socket = "/t/socket", .token = "secret", .temporary_folder = "/t/tmp", .home = "/h"});
  for (const char* variable : {"PATH=/opt/bin",
                               "OWN=x=y",
                               "RANK=3",
                               "WORLD_SIZE=4",
                               "LOCAL_RANK=1",
                               "LOCAL_WORLD_SIZE=2",
                               "MASTER_ADDR=host-a",
                               "MASTER_PORT=1234",
                               "TORCHELASTIC_RESTART_COUNT=2",
                               "TORCHELASTIC_MAX_RESTARTS=5",
                               "TORCHELASTIC_RUN_ID=j1-0000",
                               "GROUP_RANK=1",
                               "GROUP_WORLD_SIZE=2",
                               "ROLE_NAME=default",
                               "ROLE_RANK=3",
                               "ROLE_WORLD_SIZE=4",
                               "CUDA_VISIBLE_DEVICES=11,13",
                               "MUSTER_TASK=/t/socket",
                               "MUSTER_TASK_TOKEN=secret",
                               "MUSTER_JOB=j1-0000",
                               "MUSTER_SLOT=3",
                               "TMPDIR=/t/tmp",
                               "HOME=/h",
                               "OMP_NUM_THREADS=1"}) {
    EXPECT_THAT(environment, Contains(std::string(variable)));
  }
  // No agent has a store at MASTER_PORT.
  EXPECT_THAT(environment, Not(Contains(StartsWith("TORCHELASTIC_USE_AGENT_STORE"))));
}

TEST(ProgramPlaceTest, AnElasticProcessStandsAlone) {
  v1::TaskOrder order = Order(3, "b");
  order.mutable_spec()->mutable_model()->mutable_program()->set_elastic(true);
  order.mutable_spec()->mutable_compute()->set_device(v1::ComputeSpec::CUDA);
  order.set_device(5);
  const auto environment = ProgramEnvironment(order, PlaceAlone(order), {});
  for (const char* variable : {"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1",
                               "CUDA_VISIBLE_DEVICES=5", "TORCHELASTIC_RESTART_COUNT=6"}) {
    EXPECT_THAT(environment, Contains(std::string(variable)));
  }
  EXPECT_THAT(environment, Not(Contains(StartsWith("MASTER_"))));
}

}  // namespace
}  // namespace muster
