#ifndef MUSTER_SERVER_SHARD_STORAGE_FAKE_LOG_FILE_H_
#define MUSTER_SERVER_SHARD_STORAGE_FAKE_LOG_FILE_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/shard/storage/log_file.h"

namespace muster {

// A file system in memory that fails, writes short and crashes when told to. For one thread.
//
// After a crash, each sector (512 bytes) that was written since its file's last Sync has its new or
// its old contents, by the seed; of the changes of names since a directory's last SyncDirectory,
// those up to some point survive, by the seed. The parent of the first directory exists.
class FakeLogFileSystem final : public LogFileSystem {
 public:
  enum class Operation { kOpen, kRead, kWrite, kAllocate, kSync, kRename, kRemove, kSyncDirectory };

  absl::StatusOr<std::unique_ptr<LogFile>> Open(const std::string& path, Mode mode) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) override;
  absl::Status CreateDirectory(const std::string& directory) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status SyncDirectory(const std::string& directory) override;

  // Loses power and starts again: what was not synced may be lost; open files are of no more use.
  void Crash(uint64_t seed);

  // Sets a function that is called before each operation. An error that it returns is returned by
  // the operation, without effect (except that a write may have had some).
  void set_fault(std::function<absl::Status(Operation, const std::string& path)> fault) {
    fault_ = std::move(fault);
  }
  // Sets the most bytes that one Write writes.
  void set_max_write_bytes(size_t bytes) { max_write_bytes_ = bytes; }
  // Sets what files answer to keeps_space().
  void set_keeps_space(bool keeps_space) { keeps_space_ = keeps_space; }
  // Sets the space for all files; Allocate beyond it is ResourceExhausted.
  void set_capacity_bytes(uint64_t bytes) { capacity_bytes_ = bytes; }

  // Returns a file's contents, to look at or damage. REQUIRES: the file exists.
  std::string& contents(const std::string& path);
  bool Exists(const std::string& path) const { return names_.count(path) > 0; }
  int syncs() const { return syncs_; }

 private:
  class File;

  struct Inode {
    std::string current;
    std::string durable;
  };

  using Names = std::map<std::string, std::shared_ptr<Inode>>;

  // A change of names that is not durable yet.
  struct Change {
    std::string directory;
    // Null stands for a deletion. Directories have an inode, too.
    std::map<std::string, std::shared_ptr<Inode>> names;
  };

  absl::Status Check(Operation operation, const std::string& path) const;
  void Record(const std::string& path, std::map<std::string, std::shared_ptr<Inode>> names);
  static void Apply(const Change& change, Names& names);
  uint64_t UsedBytes() const;

  Names names_;
  Names durable_names_;
  std::vector<Change> changes_;
  // Number of crashes; a handle that was opened before the last one is of no more use.
  uint64_t crashes_ = 0;
  int syncs_ = 0;
  size_t max_write_bytes_ = std::numeric_limits<size_t>::max();
  bool keeps_space_ = false;
  uint64_t capacity_bytes_ = std::numeric_limits<uint64_t>::max();
  std::function<absl::Status(Operation, const std::string&)> fault_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_STORAGE_FAKE_LOG_FILE_H_
