#include "server/coordinator/job/rendezvous.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

v1::RendezvousRequest Request(uint32_t slot) {
  v1::RendezvousRequest request;
  request.mutable_task()->set_slot(slot);
  request.set_data_fingerprint(0xabc);
  request.set_training_examples(80);
  request.set_held_out_examples(20);
  request.set_total_steps(10);
  request.set_schema_fingerprint(0xdef);
  return request;
}

TEST(RendezvousTest, MeetsWhenAllCame) {
  Rendezvous rendezvous(3);
  EXPECT_TRUE(rendezvous.Arrive(Request(2)).ok());
  EXPECT_TRUE(rendezvous.Arrive(Request(2)).ok()) << "a repeat";
  EXPECT_TRUE(rendezvous.Arrive(Request(0)).ok());
  EXPECT_FALSE(rendezvous.Met({0, 1, 2}).has_value());
  EXPECT_THAT(rendezvous.Missing(), ElementsAre(1));
  EXPECT_TRUE(rendezvous.Arrive(Request(1)).ok());
  ASSERT_TRUE(rendezvous.Met({0, 1, 2}).has_value());
  EXPECT_EQ(rendezvous.Met({0, 1, 2})->total_steps(), 10);
}

TEST(RendezvousTest, OnlyTheSlotsThatTrainAreWaitedFor) {
  Rendezvous rendezvous(4);
  EXPECT_FALSE(rendezvous.Met({}).has_value());
  v1::RendezvousRequest first = Request(1);
  first.set_taken_over_clock(6);
  ASSERT_TRUE(rendezvous.Arrive(Request(3)).ok());
  EXPECT_FALSE(rendezvous.taken_over_clock().has_value());
  EXPECT_FALSE(rendezvous.Met({1, 3}).has_value());
  ASSERT_TRUE(rendezvous.Arrive(first).ok());
  EXPECT_TRUE(rendezvous.Met({1, 3}).has_value());
  EXPECT_EQ(rendezvous.taken_over_clock(), 6);
}

TEST(RendezvousTest, GroupsTakePartWholeOrNotAtAll) {
  Rendezvous rendezvous(6, /*group=*/2);
  for (const uint32_t slot : {1, 2, 3, 4}) ASSERT_TRUE(rendezvous.Arrive(Request(slot)).ok());
  EXPECT_FALSE(rendezvous.TakesPart(1)) << "slot 0 is missing";
  EXPECT_FALSE(rendezvous.TakesPart(0));
  EXPECT_TRUE(rendezvous.TakesPart(2));
  EXPECT_FALSE(rendezvous.TakesPart(4));
  EXPECT_EQ(rendezvous.CountParticipants(), 2);
  const auto round = rendezvous.PlanRound(Mesh({.shard = 2}));
  ASSERT_TRUE(round.ok()) << round.status();
  ASSERT_EQ(round->peers.size(), 2);
  EXPECT_EQ(round->peers[0].slot(), 2);
  EXPECT_EQ(round->peers[1].slot(), 3);
}

TEST(RendezvousTest, NamesSlotsAndValuesThatDiffer) {
  Rendezvous rendezvous(2);
  ASSERT_TRUE(rendezvous.Arrive(Request(0)).ok());
  v1::RendezvousRequest other = Request(1);
  other.set_training_examples(70);
  const absl::Status status = rendezvous.Arrive(other);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("slot 0 has training_examples 80"), HasSubstr("slot 1 has 70"),
                    HasSubstr("same data")));
  EXPECT_FALSE(rendezvous.Met({0, 1}).has_value());
}

TEST(RendezvousTest, EveryFieldIsCompared) {
  const auto differs = [](void (*spoil)(v1::RendezvousRequest&)) {
    Rendezvous rendezvous(2);
    EXPECT_TRUE(rendezvous.Arrive(Request(0)).ok());
    v1::RendezvousRequest other = Request(1);
    spoil(other);
    return !rendezvous.Arrive(other).ok() && !CompareWithMet(other,
                                                             [] {
                                                               Rendezvous one(1);
                                                               one.Arrive(Request(0)).IgnoreError();
                                                               return *one.Met({0});
                                                             }())
                                                  .ok();
  };
  EXPECT_TRUE(differs([](v1::RendezvousRequest& r) { r.set_data_fingerprint(1); }));
  EXPECT_TRUE(differs([](v1::RendezvousRequest& r) { r.set_training_examples(1); }));
  EXPECT_TRUE(differs([](v1::RendezvousRequest& r) { r.set_held_out_examples(1); }));
  EXPECT_TRUE(differs([](v1::RendezvousRequest& r) { r.set_total_steps(1); }));
  EXPECT_TRUE(differs([](v1::RendezvousRequest& r) { r.set_schema_fingerprint(1); }));
  EXPECT_TRUE(differs([](v1::RendezvousRequest& r) { r.set_bucket_plan_fingerprint(1); }));
}

TEST(RendezvousTest, ALostSlotTakesItsValuesWithIt) {
  Rendezvous rendezvous(2);
  v1::RendezvousRequest old = Request(0);
  old.set_data_fingerprint(1);
  ASSERT_TRUE(rendezvous.Arrive(old).ok());
  rendezvous.Forget(0);
  EXPECT_TRUE(rendezvous.Arrive(Request(1)).ok());
  EXPECT_TRUE(rendezvous.Arrive(Request(0)).ok());
  EXPECT_TRUE(rendezvous.Met({0, 1}).has_value());
}

v1::RendezvousRequest WithReplica(uint32_t slot, uint64_t clock) {
  v1::RendezvousRequest request = Request(slot);
  request.set_endpoint("endpoint " + std::to_string(slot));
  request.set_replica_clock(clock);
  return request;
}

TEST(RendezvousTest, ARoundGoesOnFromTheMostAdvancedReplica) {
  Rendezvous rendezvous(4);
  ASSERT_TRUE(rendezvous.Arrive(WithReplica(3, 8)).ok());
  ASSERT_TRUE(rendezvous.Arrive(WithReplica(1, 8)).ok());
  ASSERT_TRUE(rendezvous.Arrive(WithReplica(0, 7)).ok());
  ASSERT_TRUE(rendezvous.Arrive(Request(2)).ok());
  const auto round = rendezvous.PlanRound(Mesh());
  ASSERT_TRUE(round.ok()) << round.status();
  ASSERT_TRUE(round->source.has_value());
  EXPECT_EQ(round->source->slot, 1);
  EXPECT_EQ(round->source->clock, 8);
  ASSERT_EQ(round->peers.size(), 4);
  for (uint32_t rank = 0; rank < 4; ++rank) EXPECT_EQ(round->peers[rank].slot(), rank);
  EXPECT_EQ(round->peers[1].endpoint(), "endpoint 1");
}

TEST(RendezvousTest, WithoutReplicasThereIsNoSource) {
  Rendezvous rendezvous(2);
  ASSERT_TRUE(rendezvous.Arrive(Request(0)).ok());
  ASSERT_TRUE(rendezvous.Arrive(Request(1)).ok());
  EXPECT_FALSE(rendezvous.PlanRound(Mesh())->source.has_value());
  // A replica of which no step was made is one all the same.
  ASSERT_TRUE(rendezvous.Arrive(WithReplica(1, 0)).ok());
  EXPECT_EQ(rendezvous.PlanRound(Mesh())->source->slot, 1);
}

TEST(RendezvousTest, ReplicasAreAtMostOneStepApart) {
  Rendezvous rendezvous(3);
  ASSERT_TRUE(rendezvous.Arrive(WithReplica(0, 7)).ok());
  ASSERT_TRUE(rendezvous.Arrive(WithReplica(1, 5)).ok());
  ASSERT_TRUE(rendezvous.Arrive(WithReplica(2, 6)).ok());
  const absl::Status status = rendezvous.PlanRound(Mesh()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("slot 0 has made 7 steps, slot 1 5; workers"));
  rendezvous.Forget(1);
  EXPECT_TRUE(rendezvous.PlanRound(Mesh()).ok());
}

TEST(RendezvousTest, WhoSatOutARoundBringsNothing) {
  Rendezvous rendezvous(2);
  v1::RendezvousRequest request = WithReplica(1, 8);
  request.set_late(true);
  request.set_failure("slot 0 has left");
  ASSERT_TRUE(rendezvous.Arrive(request).ok());
  ASSERT_TRUE(rendezvous.Arrive(WithReplica(0, 7)).ok());
  EXPECT_TRUE(rendezvous.AnyLate());
  EXPECT_THAT(rendezvous.Failures(), ElementsAre(Pair(1, "slot 0 has left")));
  EXPECT_EQ(rendezvous.PlanRound(Mesh())->source->slot, 1);
  EXPECT_THAT(rendezvous.PlanRound(Mesh())->sat_out, IsEmpty());
  rendezvous.SitOut(1);
  EXPECT_FALSE(rendezvous.AnyLate());
  EXPECT_THAT(rendezvous.Failures(), IsEmpty());
  const auto round = rendezvous.PlanRound(Mesh());
  ASSERT_TRUE(round.ok()) << round.status();
  EXPECT_EQ(round->source->slot, 0);
  EXPECT_EQ(round->source->clock, 7);
  EXPECT_THAT(round->sat_out, ElementsAre(1));
}

TEST(RendezvousTest, WhereServersHoldEverythingSlotsMayBeAnyNumberOfStepsApart) {
  Rendezvous rendezvous(3);
  ASSERT_TRUE(rendezvous.Arrive(WithReplica(0, 7)).ok());
  ASSERT_TRUE(rendezvous.Arrive(WithReplica(1, 9)).ok());
  ASSERT_TRUE(rendezvous.Arrive(Request(2)).ok());
  const auto round = rendezvous.PlanRound(std::nullopt);
  ASSERT_TRUE(round.ok()) << round.status();
  EXPECT_EQ(round->source->slot, 1);
  EXPECT_EQ(round->source->clock, 9);
}

// Four tasks in two shards: ranks 1 and 3 have one, ranks 0 and 2 the other.
TEST(RendezvousTest, ShardsGoOnFromReplicasAndCopies) {
  Rendezvous rendezvous(4);
  for (const uint32_t slot : {0, 2, 3}) {
    ASSERT_TRUE(rendezvous.Arrive(slot == 3 ? WithReplica(3, 8) : Request(slot)).ok());
  }
  v1::RendezvousRequest behind = WithReplica(1, 7);
  behind.set_has_sums(true);
  ASSERT_TRUE(rendezvous.Arrive(behind).ok());
  auto round = rendezvous.PlanRound(Mesh({.replica = 2, .shard = 2}));
  ASSERT_TRUE(round.ok()) << round.status();
  EXPECT_FALSE(round->source.has_value());
  EXPECT_THAT(round->lost, HasSubstr("no worker has shard 0 of 2"));

  v1::KeptCopy& copy = *behind.add_copies();
  copy.set_shard(0);
  copy.set_clock(7);
  ASSERT_TRUE(rendezvous.Arrive(behind).ok());
  EXPECT_FALSE(rendezvous.PlanRound(Mesh({.replica = 2, .shard = 2}))->source.has_value())
      << "the copy is behind";
  behind.mutable_copies(0)->set_has_sums(true);
  ASSERT_TRUE(rendezvous.Arrive(behind).ok());
  round = rendezvous.PlanRound(Mesh({.replica = 2, .shard = 2}));
  ASSERT_TRUE(round.ok() && round->source.has_value());
  EXPECT_EQ(round->source->slot, 3);
  EXPECT_EQ(round->source->clock, 8);

  // Slot 2 has begun anew, and takes its shard like one that has nothing.
  ASSERT_TRUE(rendezvous.Arrive(WithReplica(2, 0)).ok());
  round = rendezvous.PlanRound(Mesh({.replica = 2, .shard = 2}));
  ASSERT_TRUE(round.ok() && round->source.has_value()) << round.status();
  EXPECT_EQ(round->source->clock, 8);
}

}  // namespace
}  // namespace muster
