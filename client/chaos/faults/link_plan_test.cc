#include "client/chaos/faults/link_plan.h"

#include <algorithm>
#include <set>
#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace {

const std::vector<Link> kLinks = {{"server-0", "coordinator"}, {"worker-0", "server-0"}};
constexpr absl::Duration kLease = absl::Seconds(3);

std::vector<PlannedFault> Plan(ChaosKind kind, uint64_t seed = 1) {
  return PlanLinkFaults(kind, seed, 200, kLinks, kLease);
}

std::set<LinkFault::Kind> Kinds(const std::vector<PlannedFault>& plan) {
  std::set<LinkFault::Kind> kinds;
  for (const PlannedFault& planned : plan) kinds.insert(planned.fault.kind);
  return kinds;
}

TEST(LinkPlanTest, EachKindHasItsFaults) {
  using Kind = LinkFault::Kind;
  EXPECT_EQ(Kinds(Plan(ChaosKind::kCutLink)), (std::set<Kind>{Kind::kCut, Kind::kSilent}));
  EXPECT_EQ(Kinds(Plan(ChaosKind::kHalfOpenLink)),
            (std::set<Kind>{Kind::kFromCaller, Kind::kToCaller}));
  EXPECT_EQ(Kinds(Plan(ChaosKind::kSlowLink)), std::set<Kind>{Kind::kSlow});
  EXPECT_EQ(
      Kinds(Plan(ChaosKind::kLinksAndKills)),
      (std::set<Kind>{Kind::kCut, Kind::kSilent, Kind::kFromCaller, Kind::kToCaller, Kind::kSlow}));
}

TEST(LinkPlanTest, FaultsAreOnAllLinksShorterAndLongerThanTheLease) {
  std::set<std::string> links;
  bool shorter = false, longer = false;
  for (const PlannedFault& planned : Plan(ChaosKind::kCutLink)) {
    links.insert(planned.link.Name());
    shorter |= planned.lasts < kLease / 2;
    longer |= planned.lasts > kLease;
    EXPECT_TRUE(planned.killed.empty());
  }
  EXPECT_EQ(links.size(), kLinks.size());
  EXPECT_TRUE(shorter && longer);
}

TEST(LinkPlanTest, TheKilledAreEndsOfTheLink) {
  std::set<std::string> killed;
  for (const PlannedFault& planned : Plan(ChaosKind::kLinksAndKills)) {
    EXPECT_TRUE(planned.killed == planned.link.caller || planned.killed == planned.link.called);
    killed.insert(planned.killed);
  }
  EXPECT_EQ(killed.size(), 3u);
}

TEST(LinkPlanTest, PartitionsMoveToAndFroOverAFaultyLink) {
  const Link link = {"server-0", "server-1"};
  std::set<LinkFault::Kind> kinds;
  std::set<std::string> killed;
  std::string drained_last = link.called;
  absl::Duration lasted, longest_lead;
  for (const PlannedFault& planned :
       PlanLinkFaults(ChaosKind::kLinksAndMoves, 1, 200, {link}, kLease)) {
    kinds.insert(planned.fault.kind);
    killed.insert(planned.killed);
    EXPECT_NE(planned.drained, drained_last);
    EXPECT_TRUE(planned.drained == link.caller || planned.drained == link.called);
    EXPECT_GE(planned.pause, lasted) << "the link is whole again";
    longest_lead = std::max(longest_lead, planned.lead);
    drained_last = planned.drained;
    lasted = planned.lasts;
  }
  EXPECT_EQ(kinds.size(), 5u);
  EXPECT_EQ(killed, (std::set<std::string>{"", link.caller, link.called}));
  EXPECT_GT(longest_lead, absl::Milliseconds(50));
}

TEST(LinkPlanTest, ASeedIsAPlan) {
  const auto describe = [](uint64_t seed) {
    std::string text;
    for (const PlannedFault& planned : Plan(ChaosKind::kLinksAndKills, seed)) {
      text += planned.Describe() + "\n";
    }
    return text;
  };
  EXPECT_EQ(describe(1), describe(1));
  EXPECT_NE(describe(1), describe(2));
}

}  // namespace
}  // namespace muster
