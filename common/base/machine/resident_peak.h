#ifndef MUSTER_COMMON_BASE_MACHINE_RESIDENT_PEAK_H_
#define MUSTER_COMMON_BASE_MACHINE_RESIDENT_PEAK_H_

#include <cstdint>

namespace muster {

// The most bytes of this process that were resident at once since it started; 0 if the system does
// not tell. Not from getrusage, whose figure a process inherits from its parent.
struct ResidentPeaks {
  uint64_t all = 0;
  // The peak without the times of FileWindows.
  uint64_t without_files = 0;
};

ResidentPeaks ReadResidentPeaks();

// A time in which pages of a file are mapped that are not to count as the process's own memory.
// Nothing else should grow meanwhile, because it would not count either before the time's end.
// Where the system does not let the process measure its peak anew (/proc/self/clear_refs), such
// times count like others. Thread-safe, and may overlap.
class FileWindow {
 public:
  FileWindow();
  ~FileWindow();

  FileWindow(const FileWindow&) = delete;
  FileWindow& operator=(const FileWindow&) = delete;
};

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_MACHINE_RESIDENT_PEAK_H_
