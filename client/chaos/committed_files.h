#ifndef MUSTER_CLIENT_CHAOS_COMMITTED_FILES_H_
#define MUSTER_CLIENT_CHAOS_COMMITTED_FILES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/storage.h"

namespace muster {

// A checkpoint that the coordinator lists.
struct CommittedCheckpoint {
  uint64_t clock = 0;
  // Path on this machine.
  std::string folder;
};

// Remembers a job's committed checkpoints as they were first seen, and checks that they stay so: no
// file of a committed checkpoint may change, be replaced or go, until newer checkpoints have
// retired the whole checkpoint. Single-threaded; blocks on files.
class CommittedFiles {
 public:
  // `keep`: number of checkpoints that the job keeps. `storage` outlives this object.
  CommittedFiles(const CheckpointStorage& storage, size_t keep) : storage_(storage), keep_(keep) {}

  // Notes new checkpoints, and checks that the files noted before are still the same, without
  // reading them again. Call this often: a checkpoint that is committed, changed and retired
  // between two calls is not seen. `listed`: all checkpoints that the coordinator listed just now,
  // in order of clock; one that the coordinator is retiring may be half gone.
  void Look(const std::vector<CommittedCheckpoint>& listed);

  // Like Look, for a job that has ended, so that nothing is retired any more. Reads every file
  // again, and audits every checkpoint as `muster checkpoint verify` does. DataLoss: names what
  // changed or went since the first call of Look. Other errors are the storage's.
  absl::Status Check(const std::vector<CommittedCheckpoint>& listed);

  // Number of checkpoints that were seen, including those retired since.
  size_t seen() const { return known_.size(); }
  // Returns the clocks of the checkpoints that are still there.
  std::vector<uint64_t> clocks() const;

 private:
  // Tells a file from another one in its place.
  struct Identity {
    uint64_t inode = 0;
    int64_t changed_ns = 0;
    bool operator==(const Identity&) const = default;
  };
  struct File {
    std::string path;
    uint64_t checksum = 0;
    Identity identity;
    // True once a fault of the file was noted: one is enough.
    bool faulty = false;
  };
  struct Checkpoint {
    File manifest;
    std::vector<File> files;
    bool retired = false;
    bool faulty = false;
  };
  // Says whether a listed checkpoint's missing file may have been retired meanwhile.
  enum class Missing { kMayBeRetired, kIsLost };

  // Fills `identity`. Returns false if there is no such file.
  static bool Identify(const std::string& path, Identity& identity);
  void Look(const std::vector<CommittedCheckpoint>& listed, Missing missing);
  // Notes a new checkpoint.
  void Note(const CommittedCheckpoint& checkpoint, Missing missing);
  // Compares a checkpoint with what was noted of it.
  void Compare(const CommittedCheckpoint& checkpoint, Checkpoint& known, Missing missing);
  void Retire(const std::vector<CommittedCheckpoint>& listed);
  void Fault(uint64_t clock, absl::string_view what);

  const CheckpointStorage& storage_;
  const size_t keep_;
  std::map<uint64_t, Checkpoint> known_;
  std::vector<std::string> faults_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_COMMITTED_FILES_H_
