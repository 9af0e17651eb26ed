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
  // A path of this machine.
  std::string folder;
};

// What the committed checkpoints of a job were when they were first seen, and whether they still
// are: no file of a committed checkpoint may ever change, be put in another's place, or go, until
// newer checkpoints have retired the whole. Single-threaded; blocks on files.
class CommittedFiles {
 public:
  // `keep`: how many checkpoints the job keeps. `storage` outlives this object.
  CommittedFiles(const CheckpointStorage& storage, size_t keep) : storage_(storage), keep_(keep) {}

  // Notes the checkpoints that are new, and finds out whether the files noted before are still the
  // same: cheap, for they are not read again. To be called often: what is committed, changed and
  // retired between two calls is not seen. `listed`: all that the coordinator listed just now, in
  // order of clock; one that it retires at the same time may be half gone.
  void Look(const std::vector<CommittedCheckpoint>& listed);

  // The same of a job that has ended, so that nothing is retired any more; reads every file again,
  // and audits every checkpoint as `muster checkpoint verify` does. DataLoss: names what changed or
  // went, from the first call of Look on. Other errors are the storage's.
  absl::Status Check(const std::vector<CommittedCheckpoint>& listed);

  // Checkpoints that were seen, those retired since among them.
  size_t seen() const { return known_.size(); }
  // Clocks of those that are there.
  std::vector<uint64_t> clocks() const;

 private:
  // Another file in a file's place has another one.
  struct Identity {
    uint64_t inode = 0;
    int64_t changed_ns = 0;
    bool operator==(const Identity&) const = default;
  };
  struct File {
    std::string path;
    uint64_t checksum = 0;
    Identity identity;
    // Whether a fault was noted: once is enough.
    bool faulty = false;
  };
  struct Checkpoint {
    File manifest;
    std::vector<File> files;
    bool retired = false;
    bool faulty = false;
  };
  // Whether a listed checkpoint's file that is not there may have been retired meanwhile.
  enum class Missing { kMayBeRetired, kIsLost };

  // False: there is no such file.
  static bool Identify(const std::string& path, Identity& identity);
  void Look(const std::vector<CommittedCheckpoint>& listed, Missing missing);
  // Of a checkpoint that is new.
  void Note(const CommittedCheckpoint& checkpoint, Missing missing);
  // Of one that was noted before.
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
