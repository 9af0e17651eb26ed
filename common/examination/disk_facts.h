#ifndef MUSTER_COMMON_EXAMINATION_DISK_FACTS_H_
#define MUSTER_COMMON_EXAMINATION_DISK_FACTS_H_

#include <cstddef>
#include <functional>
#include <string>

#include "absl/time/time.h"

namespace muster {

namespace v1 {
class DiskFacts;
class FolderFacts;
}  // namespace v1

struct DiskMeasurement {
  size_t bytes = size_t{16} << 20;
  int syncs = 16;
  // Nothing more is written after this time; a write that is under way goes on.
  absl::Duration longest = absl::Seconds(5);
  // Returns true if nobody wants the figures any more; null: always wanted.
  std::function<bool()> stopping;
};

// Measures a folder's disk: its free space, how fast a file gets onto it, and how long small writes
// take to get there. The file has no name where the file system allows that, otherwise it loses its
// name before anything is written, so nothing is left behind. Sets `facts.path` and what it
// measured, or `facts.error`. Blocks.
void MeasureDisk(const std::string& folder, const DiskMeasurement& how, v1::DiskFacts& facts);

// Reads a folder's names, of which machines that share the folder see the same. Sets `facts.path`,
// and `facts.error` if the folder cannot be read. Blocks.
void ReadFolderFacts(const std::string& folder, v1::FolderFacts& facts);

}  // namespace muster

#endif  // MUSTER_COMMON_EXAMINATION_DISK_FACTS_H_
