#include "client/doctor/judge_daemon.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using JudgedSeverity = Finding::Severity;

constexpr uint64_t kGiB = uint64_t{1} << 30;
const absl::Time kToday = absl::FromUnixSeconds(1'900'000'000);

int64_t DaysFromToday(int days) { return absl::ToUnixSeconds(kToday + days * absl::Hours(24)); }

v1::CertificateFacts Certificate(int days_left, int authority_days_left = 1000) {
  v1::CertificateFacts facts;
  facts.set_path("/etc/muster/own.pem");
  facts.set_subject("CN = host-a");
  facts.set_ends_unix(DaysFromToday(days_left));
  facts.set_authority_ends_unix(DaysFromToday(authority_days_left));
  facts.set_file_ends_unix(facts.ends_unix());
  return facts;
}

// The certificate's and its authority's findings.
Findings Certified(const v1::CertificateFacts& facts) {
  Findings findings;
  JudgeCertificate("s0", facts, kToday, findings);
  EXPECT_EQ(findings.size(), 2u);
  return findings;
}

// The only finding of a check, of those that `judge` adds.
template <typename Judge>
Finding Only(const std::string& check, Judge judge) {
  Findings findings;
  judge(findings);
  Finding found;
  int number = 0;
  for (const Finding& finding : findings) {
    EXPECT_FALSE(finding.seen.empty());
    EXPECT_EQ(finding.to_do.empty(), finding.severity == JudgedSeverity::kOk) << finding.seen;
    if (finding.check != check) continue;
    found = finding;
    ++number;
  }
  EXPECT_EQ(number, 1) << check;
  return found;
}

TEST(JudgeCertificateTest, EndsThatAreNearOrPast) {
  EXPECT_EQ(Certified(Certificate(31))[0].severity, JudgedSeverity::kOk);
  const Finding soon = Certified(Certificate(29))[0];
  EXPECT_EQ(soon.severity, JudgedSeverity::kWarning);
  EXPECT_THAT(soon.seen, HasSubstr("CN = host-a ends on"));
  EXPECT_THAT(soon.seen, HasSubstr("in 29 days"));
  EXPECT_THAT(soon.to_do, HasSubstr("/etc/muster/own.pem"));
  const Finding past = Certified(Certificate(-1))[0];
  EXPECT_EQ(past.severity, JudgedSeverity::kProblem);
  EXPECT_THAT(past.seen, HasSubstr("ended on"));
  EXPECT_EQ(Certified(Certificate(100, 29))[1].severity, JudgedSeverity::kWarning);
  EXPECT_EQ(Certified(Certificate(100, -1))[1].severity, JudgedSeverity::kProblem);
}

TEST(JudgeCertificateTest, ARenewedFileNeedsARestart) {
  v1::CertificateFacts facts = Certificate(3);
  facts.set_file_ends_unix(DaysFromToday(365));
  const Finding finding = Certified(facts)[0];
  EXPECT_EQ(finding.severity, JudgedSeverity::kWarning);
  EXPECT_THAT(finding.to_do, HasSubstr("Restart the process"));
}

Finding Clock(int64_t offset_us, uint64_t error_us) {
  v1::ClockFacts facts;
  facts.set_offset_us(offset_us);
  facts.set_error_us(error_us);
  return Only("clock", [&](Findings& findings) { JudgeClock("s0", facts, findings); });
}

TEST(JudgeClockTest, OnlyWhatIsCertainCounts) {
  EXPECT_EQ(Clock(900'000, 1000).severity, JudgedSeverity::kOk);
  EXPECT_EQ(Clock(1'200'000, 300'000).severity, JudgedSeverity::kOk);
  const Finding ahead = Clock(1'200'000, 1000);
  EXPECT_EQ(ahead.severity, JudgedSeverity::kWarning);
  EXPECT_THAT(ahead.seen, HasSubstr("ahead of"));
  const Finding behind = Clock(-1'200'000, 1000);
  EXPECT_EQ(behind.severity, JudgedSeverity::kWarning);
  EXPECT_THAT(behind.seen, HasSubstr("behind"));
  v1::ClockFacts unknown;
  unknown.set_error("no answer");
  const Finding failed =
      Only("clock", [&](Findings& findings) { JudgeClock("s0", unknown, findings); });
  EXPECT_EQ(failed.severity, JudgedSeverity::kWarning);
  EXPECT_THAT(failed.seen, HasSubstr("no answer"));
}

Finding Version(const std::string& release, const std::string& commit, uint32_t protocol) {
  v1::VersionFacts coordinator, own;
  coordinator.set_release("0.1.0");
  coordinator.set_commit("5d3b2c1");
  coordinator.set_protocol(2);
  own.set_release(release);
  own.set_commit(commit);
  own.set_protocol(protocol);
  return Only("version",
              [&](Findings& findings) { JudgeVersion("w0", own, coordinator, findings); });
}

TEST(JudgeVersionTest, ReleaseCommitAndProtocol) {
  EXPECT_EQ(Version("0.1.0", "5d3b2c1", 2).severity, JudgedSeverity::kOk);
  EXPECT_EQ(Version("0.1.0", "unknown", 2).severity, JudgedSeverity::kOk);
  EXPECT_EQ(Version("0.1.0", "aaaaaaa", 2).severity, JudgedSeverity::kWarning);
  EXPECT_EQ(Version("0.2.0", "unknown", 2).severity, JudgedSeverity::kWarning);
  EXPECT_EQ(Version("0.1.0", "5d3b2c1", 3).severity, JudgedSeverity::kProblem);
}

v1::MachineFacts Machine() {
  v1::MachineFacts facts;
  facts.set_processors(8);
  facts.set_usable_memory_bytes(64 * kGiB);
  facts.set_machine_memory_bytes(64 * kGiB);
  facts.set_available_memory_bytes(60 * kGiB);
  facts.set_descriptors(1 << 20);
  facts.set_huge_pages("madvise");
  facts.set_shared_huge_pages("never");
  return facts;
}

Finding Machined(const std::string& check, const v1::MachineFacts& facts,
                 uint64_t promised = 48 * kGiB) {
  v1::ExaminedDaemon daemon;
  daemon.set_memory_bytes(promised);
  return Only(check, [&](Findings& findings) { JudgeMachine(daemon, "w0", facts, findings); });
}

TEST(JudgeMachineTest, DescriptorsHugePagesMemoryAndSwap) {
  for (const char* check : {"file descriptors", "huge pages", "memory", "swap"}) {
    EXPECT_EQ(Machined(check, Machine()).severity, JudgedSeverity::kOk) << check;
  }
  v1::MachineFacts facts = Machine();
  facts.set_descriptors(65'535);
  facts.set_huge_pages("never");
  facts.set_swap_used_bytes(2 * kGiB);
  for (const char* check : {"file descriptors", "huge pages", "swap"}) {
    EXPECT_EQ(Machined(check, facts).severity, JudgedSeverity::kWarning) << check;
  }
  EXPECT_THAT(Machined("file descriptors", facts).seen, HasSubstr("65,535"));
  const Finding too_much = Machined("memory", Machine(), 65 * kGiB);
  EXPECT_EQ(too_much.severity, JudgedSeverity::kProblem);
  EXPECT_THAT(too_much.seen, HasSubstr("65.0 GiB"));
  EXPECT_THAT(too_much.to_do, HasSubstr("--memory"));
  facts.set_available_memory_bytes(kGiB);
  EXPECT_EQ(Machined("memory", facts).severity, JudgedSeverity::kWarning);
}

v1::DiskFacts Disk(v1::DiskFacts::Use use = v1::DiskFacts::DATA) {
  v1::DiskFacts facts;
  facts.set_use(use);
  facts.set_path("/srv/s0");
  facts.set_total_bytes(100 * kGiB);
  facts.set_free_bytes(50 * kGiB);
  facts.set_total_files(1000000);
  facts.set_free_files(900000);
  facts.set_written_bytes(16 << 20);
  facts.set_write_us(100'000);
  facts.set_syncs(16);
  facts.set_mean_sync_us(800);
  facts.set_slowest_sync_us(2000);
  return facts;
}

Finding DiskChecked(const std::string& check, const v1::DiskFacts& facts) {
  return Only(check, [&](Findings& findings) { JudgeDisk("s0", facts, findings); });
}

TEST(JudgeDiskTest, SpaceSpeedAndErrors) {
  EXPECT_EQ(DiskChecked("data folder: space", Disk()).severity, JudgedSeverity::kOk);
  EXPECT_EQ(DiskChecked("data folder: speed", Disk()).severity, JudgedSeverity::kOk);
  v1::DiskFacts facts = Disk();
  facts.set_free_bytes(kGiB);
  EXPECT_EQ(DiskChecked("data folder: space", facts).severity, JudgedSeverity::kWarning);
  facts.set_free_bytes(100 << 20);
  EXPECT_EQ(DiskChecked("data folder: space", facts).severity, JudgedSeverity::kProblem);
  facts = Disk();
  facts.set_free_files(10);
  EXPECT_THAT(DiskChecked("data folder: space", facts).seen, HasSubstr("10 more files"));
  EXPECT_EQ(DiskChecked("data folder: space", facts).severity, JudgedSeverity::kProblem);
  facts = Disk();
  facts.set_write_us(2'000'000);
  EXPECT_EQ(DiskChecked("data folder: speed", facts).severity, JudgedSeverity::kWarning);
  facts = Disk();
  facts.set_mean_sync_us(60'000);
  EXPECT_EQ(DiskChecked("data folder: speed", facts).severity, JudgedSeverity::kWarning);
  facts = Disk(v1::DiskFacts::OFFLOAD);
  facts.set_in_memory(true);
  EXPECT_THAT(DiskChecked("offload folder: speed", facts).to_do, HasSubstr("--offload-folder"));

  v1::DiskFacts broken;
  broken.set_use(v1::DiskFacts::CHECKPOINTS);
  broken.set_path("/srv/checkpoints");
  broken.set_error("Read-only file system");
  const Finding finding = DiskChecked("checkpoint disk", broken);
  EXPECT_EQ(finding.severity, JudgedSeverity::kProblem);
  EXPECT_THAT(finding.seen, HasSubstr("/srv/checkpoints: Read-only file system"));
  broken.set_use(v1::DiskFacts::OFFLOAD);
  EXPECT_EQ(DiskChecked("offload folder", broken).severity, JudgedSeverity::kWarning);
}

Finding Rooted(v1::ExaminedDaemon::Kind kind, bool seen, const std::string& error) {
  v1::ExaminedDaemon daemon;
  daemon.set_kind(kind);
  v1::RootFacts facts;
  facts.set_path("/srv/checkpoints");
  facts.set_seen(seen);
  facts.set_error(error);
  return Only("checkpoint root",
              [&](Findings& findings) { JudgeRoot(daemon, "d0", facts, findings); });
}

TEST(JudgeRootTest, UnseenOrUnwritable) {
  EXPECT_EQ(Rooted(v1::ExaminedDaemon::SERVER, true, "").severity, JudgedSeverity::kOk);
  EXPECT_EQ(Rooted(v1::ExaminedDaemon::COORDINATOR, true, "").severity, JudgedSeverity::kOk);
  const Finding unseen = Rooted(v1::ExaminedDaemon::SERVER, false, "no such file");
  EXPECT_EQ(unseen.severity, JudgedSeverity::kProblem);
  EXPECT_THAT(unseen.seen, HasSubstr("does not see"));
  EXPECT_THAT(unseen.to_do, HasSubstr("Mount"));
  EXPECT_THAT(Rooted(v1::ExaminedDaemon::WORKER, false, "no such file").to_do,
              HasSubstr("all-reduce"));
  const Finding read_only = Rooted(v1::ExaminedDaemon::WORKER, true, "permission denied");
  EXPECT_EQ(read_only.severity, JudgedSeverity::kProblem);
  EXPECT_THAT(read_only.seen, HasSubstr("permission denied"));
  EXPECT_EQ(Rooted(v1::ExaminedDaemon::COORDINATOR, false, "disk full").severity,
            JudgedSeverity::kProblem);
}

}  // namespace
}  // namespace muster
