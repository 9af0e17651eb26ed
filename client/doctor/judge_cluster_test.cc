#include "client/doctor/judge_cluster.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ClusterSeverity = Finding::Severity;

constexpr uint64_t kGigabyte = uint64_t{1} << 30;

void AddDaemon(ExaminedCluster& cluster, const std::string& id, v1::ExaminedDaemon::Kind kind) {
  v1::ExaminedDaemon daemon;
  daemon.set_id(id);
  daemon.set_kind(kind);
  daemon.set_live(true);
  daemon.set_memory_bytes(id.empty() ? 0 : 8 * kGigabyte);
  cluster.daemons.push_back(daemon);
  v1::DaemonReport& report = cluster.reports[id];
  report.set_id(id);
  report.mutable_machine()->set_boot_id("machine of " + id);
  report.mutable_machine()->set_host("host-of-" + id);
  report.mutable_machine()->set_machine_memory_bytes(16 * kGigabyte);
}

// A server and three workers, one daemon per machine.
ExaminedCluster Cluster() {
  ExaminedCluster cluster;
  AddDaemon(cluster, "", v1::ExaminedDaemon::COORDINATOR);
  AddDaemon(cluster, "s0", v1::ExaminedDaemon::SERVER);
  for (const char* id : {"w0", "w1", "w2"}) AddDaemon(cluster, id, v1::ExaminedDaemon::WORKER);
  return cluster;
}

v1::LinkFacts& AddLink(ExaminedCluster& cluster, const std::string& from, const std::string& to,
                       double bytes_per_second = 1e9, uint64_t round_trip_us = 100) {
  v1::LinkFacts& link = *cluster.reports.at(from).add_links();
  link.set_to(to);
  link.set_least_round_trip_us(round_trip_us);
  link.set_carried_bytes(static_cast<uint64_t>(bytes_per_second / 10));
  link.set_carry_us(100'000);
  return link;
}

void AllLinks(ExaminedCluster& cluster) {
  for (const char* from : {"w0", "w1", "w2"}) {
    for (const char* to : {"s0", "w0", "w1", "w2"}) {
      if (std::string(from) != to) AddLink(cluster, from, to);
    }
  }
}

template <typename Judge>
Findings Judged(Judge judge, const ExaminedCluster& cluster) {
  Findings findings;
  judge(cluster, findings);
  return findings;
}

// Findings that are not well.
Findings Bad(const Findings& findings) {
  Findings bad;
  for (const Finding& finding : findings) {
    EXPECT_FALSE(finding.seen.empty());
    EXPECT_EQ(finding.to_do.empty(), finding.severity == ClusterSeverity::kOk) << finding.seen;
    if (finding.severity != ClusterSeverity::kOk) bad.push_back(finding);
  }
  return bad;
}

TEST(ExaminedClusterTest, BothStagesOfADaemonComeTogether) {
  ExaminedCluster cluster;
  v1::ExaminationUpdate machine, links, last;
  machine.mutable_report()->set_id("w0");
  machine.mutable_report()->mutable_machine()->set_host("a");
  machine.mutable_report()->add_disks()->set_use(v1::DiskFacts::OFFLOAD);
  links.mutable_report()->set_id("w0");
  links.mutable_report()->add_disks()->set_use(v1::DiskFacts::CHECKPOINTS);
  links.mutable_report()->add_links()->set_to("w1");
  last.mutable_last()->set_pairs(2);
  for (const v1::ExaminationUpdate& update : {machine, links, last}) cluster.Add(update);
  EXPECT_EQ(cluster.reports.at("w0").machine().host(), "a");
  EXPECT_EQ(cluster.reports.at("w0").disks_size(), 2);
  EXPECT_EQ(cluster.reports.at("w0").links_size(), 1);
  EXPECT_EQ(cluster.last.pairs(), 2u);
}

TEST(JudgePresenceTest, LostAndSilentDaemonsAndNoWorkers) {
  ExaminedCluster cluster = Cluster();
  EXPECT_TRUE(Bad(Judged(JudgePresence, cluster)).empty());
  cluster.daemons[1].set_live(false);
  v1::ExaminationUpdate::Absence& absence = *cluster.last.add_absent();
  absence.set_id("w1");
  absence.set_reason("it did not report in time");
  const Findings bad = Bad(Judged(JudgePresence, cluster));
  ASSERT_EQ(bad.size(), 2u);
  EXPECT_EQ(bad[0].where, "s0");
  EXPECT_EQ(bad[0].severity, ClusterSeverity::kWarning);
  EXPECT_EQ(bad[1].where, "w1");
  EXPECT_EQ(bad[1].severity, ClusterSeverity::kProblem);
  EXPECT_THAT(bad[1].seen, HasSubstr("did not report in time"));
  for (v1::ExaminedDaemon& daemon : cluster.daemons) daemon.set_live(daemon.id().empty());
  EXPECT_EQ(Bad(Judged(JudgePresence, cluster)).back().check, "workers");
}

TEST(JudgePromisedMemoryTest, OfTheDaemonsOfOneMachine) {
  ExaminedCluster cluster = Cluster();
  EXPECT_TRUE(Judged(JudgePromisedMemory, cluster).empty()) << "one daemon per machine";
  cluster.reports.at("w1").mutable_machine()->set_boot_id("machine of w0");
  EXPECT_TRUE(Bad(Judged(JudgePromisedMemory, cluster)).empty());
  cluster.reports.at("w2").mutable_machine()->set_boot_id("machine of w0");
  const Findings bad = Bad(Judged(JudgePromisedMemory, cluster));
  ASSERT_EQ(bad.size(), 1u);
  EXPECT_THAT(bad[0].seen, HasSubstr("24.0 GiB of its 16.0 GiB"));
}

TEST(JudgeFoldersTest, FoldersThatAreSeenDifferently) {
  ExaminedCluster cluster = Cluster();
  for (const char* id : {"w0", "w1", "w2"}) {
    v1::FolderFacts& folder = *cluster.reports.at(id).add_folders();
    folder.set_path("/data");
    folder.set_names_hash(5);
  }
  const Findings same = Judged(JudgeFolders, cluster);
  ASSERT_EQ(same.size(), 1u);
  EXPECT_EQ(same[0].severity, ClusterSeverity::kOk);
  cluster.reports.at("w2").mutable_folders(0)->set_names_hash(6);
  const Findings other = Bad(Judged(JudgeFolders, cluster));
  ASSERT_EQ(other.size(), 1u);
  EXPECT_EQ(other[0].where, "w2");
  EXPECT_THAT(other[0].seen, HasSubstr("/data holds other names for w2 than for w0, w1"));
  cluster.reports.at("w2").mutable_folders(0)->set_error("not there");
  const Findings unread = Bad(Judged(JudgeFolders, cluster));
  ASSERT_EQ(unread.size(), 1u);
  EXPECT_THAT(unread[0].seen, HasSubstr("not there"));
  // The checkpoint root changes while jobs run.
  cluster.reports.at("w2").mutable_folders(0)->clear_error();
  for (auto& [id, report] : cluster.reports) report.mutable_root()->set_path("/data");
  EXPECT_TRUE(Judged(JudgeFolders, cluster).empty());
}

TEST(JudgeLinksTest, WhatReachesNobodyAndWhatNobodyReaches) {
  ExaminedCluster cluster = Cluster();
  AllLinks(cluster);
  EXPECT_TRUE(Bad(Judged(JudgeLinks, cluster)).empty());
  // Nobody reaches the server.
  for (const char* from : {"w0", "w1", "w2"}) {
    v1::LinkFacts& link = *cluster.reports.at(from).mutable_links(0);
    ASSERT_EQ(link.to(), "s0");
    link.set_rpc_error("connection refused");
    link.set_probe_error("no answer in time");
    link.clear_carry_us();
  }
  const Findings to = Bad(Judged(JudgeLinks, cluster));
  ASSERT_EQ(to.size(), 2u);
  EXPECT_EQ(to[0].where, "s0");
  EXPECT_EQ(to[0].check, "rpc port");
  EXPECT_EQ(to[0].severity, ClusterSeverity::kProblem);
  EXPECT_EQ(to[0].seen, "w0, w1, w2 do not reach it: connection refused.");
  EXPECT_EQ(to[1].check, "data port");
  EXPECT_EQ(to[1].severity, ClusterSeverity::kWarning);
  // A worker reaches no other one.
  cluster = Cluster();
  for (const char* other : {"w1", "w2"}) {
    AddLink(cluster, "w0", other).set_probe_error("no route to host");
  }
  const Findings from = Bad(Judged(JudgeLinks, cluster));
  ASSERT_EQ(from.size(), 1u);
  EXPECT_EQ(from[0].where, "w0");
  EXPECT_EQ(from[0].check, "task ports");
  EXPECT_THAT(from[0].seen, HasSubstr("reaches none of the 2 daemons"));
}

TEST(JudgeLinksTest, SlowAndFarLinks) {
  ExaminedCluster cluster = Cluster();
  AllLinks(cluster);
  AddLink(cluster, "w0", "slow", 150e6);
  AddLink(cluster, "w1", "far", 1e9, 25'000);
  AddLink(cluster, "w2", "near", 1e9, 1'500);
  const Findings bad = Bad(Judged(JudgeLinks, cluster));
  ASSERT_EQ(bad.size(), 2u);
  EXPECT_EQ(bad[0].where, "w0");
  EXPECT_THAT(bad[0].seen, HasSubstr("slow (143.1 MiB/s"));
  EXPECT_EQ(bad[1].where, "w1");
  EXPECT_THAT(bad[1].seen, HasSubstr("far ("));
}

TEST(JudgeLinksTest, APortThatCannotBeListenedOn) {
  ExaminedCluster cluster = Cluster();
  cluster.reports.at("w0").set_probe_error("no port from 7100 to 7101 can be listened on");
  const Findings bad = Bad(Judged(JudgeLinks, cluster));
  ASSERT_EQ(bad.size(), 1u);
  EXPECT_EQ(bad[0].severity, ClusterSeverity::kProblem);
  EXPECT_THAT(bad[0].to_do, HasSubstr("--collectives-ports"));
}

TEST(JudgeClusterTest, ComparesEveryVersionWithTheCoordinators) {
  ExaminedCluster cluster = Cluster();
  v1::VersionFacts version;
  version.set_release("0.2.0");
  for (auto& [id, report] : cluster.reports) *report.mutable_version() = version;
  v1::VersionFacts client;
  client.set_release("0.1.0");
  size_t others = 0;
  for (const Finding& finding : JudgeCluster(cluster, client, absl::UnixEpoch())) {
    if (finding.check != "version") continue;
    const bool is_client = finding.where == kTheClient;
    EXPECT_EQ(finding.severity, is_client ? ClusterSeverity::kWarning : ClusterSeverity::kOk);
    others += !is_client;
  }
  EXPECT_EQ(others, 5u);
}

}  // namespace
}  // namespace muster
