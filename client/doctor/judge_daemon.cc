#include "client/doctor/judge_daemon.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/terminal/format.h"
#include "common/text/format_bytes.h"

namespace muster {
namespace {

using Severity = Finding::Severity;

constexpr absl::Duration kSoon = absl::Hours(24 * 30);
constexpr absl::Duration kClockDifference = absl::Seconds(1);
// A daemon takes a connection for every three descriptors, and 16,384 at most.
constexpr uint64_t kEnoughDescriptors = 65'536;
constexpr double kSlowDisk = 20e6;
constexpr uint64_t kSlowSyncUs = 50'000;
constexpr uint64_t kFullBytes = uint64_t{256} << 20;
constexpr uint64_t kNearlyFullBytes = uint64_t{2} << 30;
constexpr uint64_t kFewFiles = 1000;
constexpr uint64_t kMuchSwap = uint64_t{1} << 30;

std::string Day(absl::Time time) { return absl::FormatTime("%Y-%m-%d", time, absl::UTCTimeZone()); }

// Returns the severity of an end, such as of a certificate.
Severity SeverityOfEnd(absl::Time end, absl::Time now) {
  if (end <= now) return Severity::kProblem;
  return end - now < kSoon ? Severity::kWarning : Severity::kOk;
}

std::string EndText(absl::Time end, absl::Time now) {
  const int64_t days = (end - now) / absl::Hours(24);
  if (end <= now) return absl::StrCat("ended on ", Day(end));
  return absl::StrCat("ends on ", Day(end), ", in ", days, days == 1 ? " day" : " days");
}

std::string NameOf(v1::DiskFacts::Use use) {
  switch (use) {
    case v1::DiskFacts::DATA:
      return "data folder";
    case v1::DiskFacts::CHECKPOINTS:
      return "checkpoint disk";
    case v1::DiskFacts::OFFLOAD:
      return "offload folder";
    default:
      return "folder";
  }
}

std::string FlagOf(v1::DiskFacts::Use use) {
  switch (use) {
    case v1::DiskFacts::DATA:
      return "--data-dir";
    case v1::DiskFacts::CHECKPOINTS:
      return "the coordinator's --checkpoint-root";
    default:
      return "--offload-folder";
  }
}

// Returns the speed of the large file; 0: nothing was measured.
double BytesPerSecond(const v1::DiskFacts& facts) {
  if (facts.write_us() == 0) return 0;
  return static_cast<double>(facts.written_bytes()) * 1e6 / static_cast<double>(facts.write_us());
}

void JudgeSpace(const std::string& where, const v1::DiskFacts& facts, Findings& findings) {
  if (facts.total_bytes() == 0) return;
  Finding finding = {.where = where, .check = NameOf(facts.use()) + ": space"};
  finding.seen = absl::StrCat(facts.path(), " has ", FormatBytes(facts.free_bytes()), " free of ",
                              FormatBytes(facts.total_bytes()), ".");
  const bool counts_files = facts.total_files() > 0;
  if (facts.free_bytes() < kFullBytes || (counts_files && facts.free_files() < kFewFiles)) {
    finding.severity = Severity::kProblem;
    if (facts.free_bytes() >= kFullBytes) {
      absl::StrAppend(&finding.seen, " It has room for ", facts.free_files(), " more files.");
    }
    finding.to_do = absl::StrCat("Make room there, or name a folder on a larger disk with ",
                                 FlagOf(facts.use()), ".");
  } else if (facts.free_bytes() < kNearlyFullBytes) {
    finding.severity = Severity::kWarning;
    finding.to_do = "Make room there before jobs need it.";
  }
  findings.push_back(std::move(finding));
}

}  // namespace

void JudgeCertificate(const std::string& where, const v1::CertificateFacts& facts, absl::Time now,
                      Findings& findings) {
  const absl::Time end = absl::FromUnixSeconds(facts.ends_unix());
  const absl::Time authority = absl::FromUnixSeconds(facts.authority_ends_unix());
  const absl::Time in_file = absl::FromUnixSeconds(facts.file_ends_unix());
  Finding own = {.severity = SeverityOfEnd(end, now), .where = where, .check = "certificate"};
  own.seen = absl::StrCat("The certificate of ", facts.subject(), " ", EndText(end, now), ".");
  if (own.severity != Severity::kOk && facts.file_ends_unix() > 0 && in_file > end) {
    own.to_do =
        absl::StrCat("Restart the process: ", facts.path(),
                     " holds a later certificate by now, which ", EndText(in_file, now), ".");
  } else if (own.severity != Severity::kOk) {
    own.to_do =
        absl::StrCat("Issue a new certificate to ", facts.path(), ", then restart the process.");
  }
  findings.push_back(std::move(own));
  Finding of_authority = {
      .severity = SeverityOfEnd(authority, now), .where = where, .check = "authority"};
  of_authority.seen =
      absl::StrCat("The certificate of its authority ", EndText(authority, now), ".");
  if (of_authority.severity != Severity::kOk) {
    of_authority.to_do =
        "Make a new authority, give all processes both authorities in --tls-authority, then "
        "certificates of the new one, and restart them.";
  }
  findings.push_back(std::move(of_authority));
}

void JudgeClock(const std::string& where, const v1::ClockFacts& facts, Findings& findings) {
  Finding finding = {.where = where, .check = "clock"};
  if (!facts.error().empty()) {
    finding.severity = Severity::kWarning;
    finding.seen = absl::StrCat("The clock could not be compared: ", facts.error(), ".");
    finding.to_do = "Look at the coordinator's log, and examine again.";
  } else {
    const absl::Duration offset = absl::Microseconds(facts.offset_us());
    const absl::Duration error = absl::Microseconds(facts.error_us());
    const bool behind = offset < absl::ZeroDuration();
    finding.seen =
        absl::StrCat("The clock is ", FormatTime(absl::ToDoubleSeconds(absl::AbsDuration(offset))),
                     behind ? " behind" : " ahead of", " the coordinator's, give or take ",
                     FormatTime(absl::ToDoubleSeconds(error)), ".");
    if (absl::AbsDuration(offset) - error > kClockDifference) {
      finding.severity = Severity::kWarning;
      finding.to_do =
          "Run a time service (chrony, systemd-timesyncd) on both machines: certificates, logs and "
          "histories go by their clocks.";
    }
  }
  findings.push_back(std::move(finding));
}

void JudgeVersion(const std::string& where, const v1::VersionFacts& facts,
                  const v1::VersionFacts& coordinator, Findings& findings) {
  const auto text = [](const v1::VersionFacts& version) {
    return absl::StrCat(version.release(), " (commit ", version.commit(), ", protocol ",
                        version.protocol(), ")");
  };
  Finding finding = {.where = where, .check = "version"};
  finding.seen = absl::StrCat("It is of release ", text(facts), ".");
  // Only packaged programs know their commit.
  const bool knows = facts.commit() != "unknown" && coordinator.commit() != "unknown";
  const bool differs =
      facts.release() != coordinator.release() || (knows && facts.commit() != coordinator.commit());
  if (facts.protocol() != coordinator.protocol()) {
    finding.severity = Severity::kProblem;
  } else if (differs) {
    finding.severity = Severity::kWarning;
  }
  if (finding.severity != Severity::kOk) {
    absl::StrAppend(&finding.seen, " The coordinator is of ", text(coordinator), ".");
    finding.to_do = "Install the same release everywhere, and restart what is of another one.";
  }
  findings.push_back(std::move(finding));
}

void JudgeMachine(const v1::ExaminedDaemon& daemon, const std::string& where,
                  const v1::MachineFacts& facts, Findings& findings) {
  Finding descriptors = {.where = where, .check = "file descriptors"};
  descriptors.seen =
      absl::StrCat("The process may open ", FormatCount(facts.descriptors()), " files.");
  if (facts.descriptors() < kEnoughDescriptors) {
    descriptors.severity = Severity::kWarning;
    absl::StrAppend(&descriptors.seen, " It takes one connection for every three of them.");
    descriptors.to_do =
        absl::StrCat("Raise the hard limit (ulimit -Hn, systemd's LimitNOFILE) to ",
                     FormatCount(kEnoughDescriptors), " or more, and restart the process.");
  }
  findings.push_back(std::move(descriptors));

  if (!facts.huge_pages().empty()) {
    Finding pages = {.where = where, .check = "huge pages"};
    pages.seen = absl::StrCat("Transparent huge pages are set to ", facts.huge_pages(), ", and to ",
                              facts.shared_huge_pages(), " for shared memory.");
    if (facts.huge_pages() == "never") {
      pages.severity = Severity::kWarning;
      pages.to_do =
          "Run: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled. Look-ups in tables and "
          "caches are slower on small pages.";
    }
    findings.push_back(std::move(pages));
  }

  Finding memory = {.where = where, .check = "memory"};
  memory.seen = absl::StrCat("It may use ", FormatBytes(facts.usable_memory_bytes()), " and ",
                             facts.processors(), " processors; ",
                             FormatBytes(facts.available_memory_bytes()), " of the machine's ",
                             FormatBytes(facts.machine_memory_bytes()), " are available.");
  if (daemon.memory_bytes() > facts.usable_memory_bytes() && facts.usable_memory_bytes() > 0) {
    memory.severity = Severity::kProblem;
    absl::StrAppend(&memory.seen, " But it has promised jobs ", FormatBytes(daemon.memory_bytes()),
                    ".");
    memory.to_do = "Restart it with a smaller --memory.";
  } else if (facts.available_memory_bytes() < facts.machine_memory_bytes() / 20) {
    memory.severity = Severity::kWarning;
    memory.to_do =
        "End other programs of this machine, or restart its daemons with a smaller --memory.";
  }
  findings.push_back(std::move(memory));

  Finding swap = {.where = where, .check = "swap"};
  swap.seen = absl::StrCat(FormatBytes(facts.swap_used_bytes()), " of memory are swapped out.");
  if (facts.swap_used_bytes() > kMuchSwap) {
    swap.severity = Severity::kWarning;
    swap.to_do =
        "Find what took the memory, then run swapoff: training that waits for swapped pages "
        "stands still.";
  }
  findings.push_back(std::move(swap));
}

void JudgeDisk(const std::string& where, const v1::DiskFacts& facts, Findings& findings) {
  if (!facts.error().empty()) {
    const bool offload = facts.use() == v1::DiskFacts::OFFLOAD;
    findings.push_back(
        {.severity = offload ? Severity::kWarning : Severity::kProblem,
         .where = where,
         .check = NameOf(facts.use()),
         .seen = absl::StrCat("No file can be written in ", facts.path(), ": ", facts.error(), "."),
         .to_do = absl::StrCat("Make ", facts.path(),
                               " a folder that the daemon's user may write to, or name another "
                               "one with ",
                               FlagOf(facts.use()),
                               offload ? "; only jobs that offload need it." : ".")});
    return;
  }
  JudgeSpace(where, facts, findings);
  Finding speed = {.where = where, .check = NameOf(facts.use()) + ": speed"};
  const double rate = BytesPerSecond(facts);
  speed.seen =
      absl::StrCat(facts.path(), " takes ", FormatBytes(rate), "/s and a sync in ",
                   FormatTime(static_cast<double>(facts.mean_sync_us()) / 1e6), " (slowest ",
                   FormatTime(static_cast<double>(facts.slowest_sync_us()) / 1e6), ").");
  if (facts.in_memory()) {
    speed.severity = Severity::kWarning;
    speed.seen = absl::StrCat(facts.path(), " lies in memory (tmpfs), not on a disk.");
    speed.to_do = absl::StrCat("Name a folder on a disk with ", FlagOf(facts.use()),
                               facts.use() == v1::DiskFacts::OFFLOAD
                                   ? "; jobs that offload are refused here."
                                   : "; what is in memory is lost with the machine.");
  } else if (rate < kSlowDisk || facts.mean_sync_us() > kSlowSyncUs) {
    speed.severity = Severity::kWarning;
    speed.to_do =
        "Find out what else uses the disk, or name a folder on a faster one: checkpoints, and "
        "each push under durability EVERY_PUSH, wait for it.";
  }
  findings.push_back(std::move(speed));
}

void JudgeRoot(const v1::ExaminedDaemon& daemon, const std::string& where,
               const v1::RootFacts& facts, Findings& findings) {
  Finding finding = {.where = where, .check = "checkpoint root"};
  const bool is_coordinator = daemon.kind() == v1::ExaminedDaemon::COORDINATOR;
  if (!facts.seen() && !is_coordinator) {
    finding.severity = Severity::kProblem;
    finding.seen = absl::StrCat("It does not see the coordinator's folder of checkpoints, ",
                                facts.path(), ": ", facts.error(), ".");
    finding.to_do =
        absl::StrCat("Mount the file system that the coordinator has at ", facts.path(),
                     " at the same path here, and allow it with --data-root; ",
                     daemon.kind() == v1::ExaminedDaemon::WORKER
                         ? "jobs that train by all-reduce, programs and resumed jobs need it."
                         : "jobs on this server can make no checkpoint.");
  } else if (!facts.error().empty()) {
    finding.severity = Severity::kProblem;
    finding.seen = absl::StrCat(
        "It cannot write, read and delete files in the folder of "
        "checkpoints, ",
        facts.path(), ": ", facts.error(), ".");
    finding.to_do =
        "Make room there, and let all daemons' users write: run them as one user, or with "
        "--group-files.";
  } else {
    finding.seen = absl::StrCat(is_coordinator ? "It writes to " : "It sees and writes to ",
                                facts.path(), is_coordinator ? "." : ", the coordinator's folder.");
  }
  findings.push_back(std::move(finding));
}

}  // namespace muster
