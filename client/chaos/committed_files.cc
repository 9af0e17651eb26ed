#include "client/chaos/committed_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/manifest.h"
#include "proto/checkpoint.pb.h"

namespace muster {
namespace {

// More of them say no more.
constexpr size_t kShownFaults = 6;
constexpr char kManifest[] = "MANIFEST";

}  // namespace

bool CommittedFiles::Identify(const std::string& path, Identity& identity) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return false;
  identity.inode = status.st_ino;
  identity.changed_ns = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  return true;
}

void CommittedFiles::Fault(uint64_t clock, absl::string_view what) {
  faults_.push_back(absl::StrCat("the committed checkpoint at clock ", clock, ": ", what));
}

void CommittedFiles::Note(const CommittedCheckpoint& checkpoint, Missing missing) {
  Checkpoint noted;
  noted.manifest.path = JoinUri(checkpoint.folder, kManifest);
  bool whole = Identify(noted.manifest.path, noted.manifest.identity);
  const auto manifest = ReadManifest(storage_, checkpoint.folder, &noted.manifest.checksum);
  std::vector<std::string> faults;
  if (!manifest.ok()) {
    whole &= !absl::IsNotFound(manifest.status());
    noted.faulty = true;
    faults.emplace_back(manifest.status().message());
  } else {
    for (const v1::CheckpointFile& file : manifest->files()) {
      File as_committed = {.path = JoinUri(checkpoint.folder, file.path()),
                           .checksum = file.checksum()};
      whole &= Identify(as_committed.path, as_committed.identity);
      const absl::Status sound = VerifyCheckpointFile(storage_, checkpoint.folder, file);
      whole &= !absl::IsNotFound(sound);
      if (!sound.ok()) {
        as_committed.faulty = true;
        faults.emplace_back(sound.message());
      }
      noted.files.push_back(std::move(as_committed));
    }
  }
  // It is looked at again as long as it is listed.
  if (!whole && missing == Missing::kMayBeRetired) return;
  for (const std::string& fault : faults) Fault(checkpoint.clock, fault);
  known_[checkpoint.clock] = std::move(noted);
}

void CommittedFiles::Compare(const CommittedCheckpoint& checkpoint, Checkpoint& known,
                             Missing missing) {
  if (known.retired && !known.faulty) {
    known.faulty = true;
    Fault(checkpoint.clock, "it was retired, and its clock has been committed again");
  }
  if (known.faulty) return;
  Identity now;
  const bool there = Identify(known.manifest.path, now);
  if (!there && missing == Missing::kMayBeRetired) return;
  if (!there || !(now == known.manifest.identity)) {
    uint64_t checksum = 0;
    const absl::Status read = ReadManifest(storage_, checkpoint.folder, &checksum).status();
    // One with the same bytes says nothing else.
    known.manifest.identity = now;
    if (!read.ok() || checksum != known.manifest.checksum) {
      known.faulty = true;
      Fault(checkpoint.clock,
            read.ok()
                ? absl::StrCat("another MANIFEST has taken its MANIFEST's place: its "
                               "checksum was ",
                               absl::Hex(known.manifest.checksum), " and is ", absl::Hex(checksum))
                : std::string(read.message()));
    }
  }
  for (File& file : known.files) {
    if (file.faulty) continue;
    const bool file_there = Identify(file.path, now);
    if (file_there && now == file.identity) continue;
    if (!file_there && missing == Missing::kMayBeRetired) return;
    file.faulty = true;
    if (!file_there) {
      Fault(checkpoint.clock, absl::StrCat(file.path, " is gone"));
      continue;
    }
    const auto bytes = ReadFile(storage_, file.path);
    const uint64_t is = bytes.ok() ? Fingerprint(*bytes) : 0;
    Fault(checkpoint.clock,
          absl::StrCat(file.path, " was written again, ",
                       is == file.checksum
                           ? "with the same bytes"
                           : absl::StrCat("with other bytes: its checksum was ",
                                          absl::Hex(file.checksum), " and is ", absl::Hex(is))));
  }
}

void CommittedFiles::Retire(const std::vector<CommittedCheckpoint>& listed) {
  for (auto known = known_.begin(); known != known_.end(); ++known) {
    auto& [clock, checkpoint] = *known;
    if (checkpoint.retired ||
        std::any_of(listed.begin(), listed.end(), [clock = clock](const CommittedCheckpoint& one) {
          return one.clock == clock;
        })) {
      continue;
    }
    checkpoint.retired = true;
    // One that is listed and was retired before it could be noted counts, too.
    std::set<uint64_t> later;
    for (auto one = std::next(known); one != known_.end(); ++one) later.insert(one->first);
    for (const CommittedCheckpoint& one : listed) {
      if (one.clock > clock) later.insert(one.clock);
    }
    const size_t newer = later.size();
    if (newer < keep_ && !checkpoint.faulty) {
      checkpoint.faulty = true;
      Fault(clock, absl::StrCat("it is gone, when ", newer, " newer ones had been committed and ",
                                keep_, " are kept"));
    }
  }
}

void CommittedFiles::Look(const std::vector<CommittedCheckpoint>& listed, Missing missing) {
  for (const CommittedCheckpoint& checkpoint : listed) {
    const auto known = known_.find(checkpoint.clock);
    if (known == known_.end()) {
      Note(checkpoint, missing);
    } else {
      Compare(checkpoint, known->second, missing);
    }
  }
  Retire(listed);
}

void CommittedFiles::Look(const std::vector<CommittedCheckpoint>& listed) {
  Look(listed, Missing::kMayBeRetired);
}

absl::Status CommittedFiles::Check(const std::vector<CommittedCheckpoint>& listed) {
  Look(listed, Missing::kIsLost);
  for (auto& [clock, checkpoint] : known_) {
    if (checkpoint.retired || checkpoint.faulty) continue;
    for (File& file : checkpoint.files) {
      if (file.faulty) continue;
      MUSTER_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(storage_, file.path));
      if (Fingerprint(bytes) != file.checksum) {
        Fault(clock,
              absl::StrCat(file.path, " has changed: its checksum was ", absl::Hex(file.checksum),
                           " and is ", absl::Hex(Fingerprint(bytes))));
      }
    }
  }
  for (const CommittedCheckpoint& checkpoint : listed) {
    const auto audit = AuditCheckpoint(storage_, checkpoint.folder);
    if (!audit.ok()) {
      Fault(checkpoint.clock, audit.status().message());
      continue;
    }
    for (const absl::Status& damage : audit->damage) Fault(checkpoint.clock, damage.message());
  }
  if (faults_.empty()) return absl::OkStatus();
  std::vector<std::string> shown = faults_;
  if (shown.size() > kShownFaults) {
    shown.resize(kShownFaults);
    shown.push_back(absl::StrCat("and ", faults_.size() - kShownFaults, " more"));
  }
  return absl::DataLossError(absl::StrJoin(shown, "; "));
}

std::vector<uint64_t> CommittedFiles::clocks() const {
  std::vector<uint64_t> clocks;
  for (const auto& [clock, checkpoint] : known_) {
    if (!checkpoint.retired) clocks.push_back(clock);
  }
  return clocks;
}

}  // namespace muster
