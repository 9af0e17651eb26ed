#ifndef MUSTER_COMMON_FILES_FAKE_FOLDER_ENTRIES_H_
#define MUSTER_COMMON_FILES_FAKE_FOLDER_ENTRIES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/files/folder_entries.h"

namespace muster {

// Changes real folders but syncs none. Remembers changes that nobody asked to sync, and undoes them
// when the machine loses power. For one thread.
class FakeFolderEntries final : public FolderEntries {
 public:
  absl::Status Make(const std::string& path) override;
  absl::Status Publish(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status Sync(const std::string& folder) override;

  // Ends the process before operation `operations` from now (0: the next one): it and all after it
  // fail without effect. What was done and not synced stays, until the power is lost.
  void EndProcessAfter(int operations) { operations_left_ = operations; }
  // Starts a new process, which does not end by itself. Returns whether the one before had ended.
  bool StartProcess();
  // Undoes all that was not synced.
  void LosePower();

 private:
  // A name in a folder; `from`, unless empty, is where it was before.
  struct Entry {
    std::string path;
    std::string from;
  };

  absl::Status Count();

  // Changes by folder, in order.
  std::map<std::string, std::vector<Entry>> unsynced_;
  // Negative: any number.
  int operations_left_ = -1;
};

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_FAKE_FOLDER_ENTRIES_H_
