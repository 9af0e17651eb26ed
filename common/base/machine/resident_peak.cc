#include "common/base/machine/resident_peak.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace muster {
namespace {

// Returns the peak since the process started or ForgetPeak was called.
uint64_t PeakNow() {
  std::ifstream status("/proc/self/status");
  std::string field;
  while (status >> field) {
    uint64_t kib = 0;
    if (field == "VmHWM:" && status >> kib) return kib * 1024;
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

void ForgetPeak() { std::ofstream("/proc/self/clear_refs") << "5"; }

// The system measures one peak for a process, so there is one of these.
class Peaks {
 public:
  static Peaks& Get() {
    static Peaks& peaks = *new Peaks();
    return peaks;
  }

  ResidentPeaks Read() {
    absl::MutexLock lock(&mutex_);
    TakeLocked();
    return peaks_;
  }

  void Open() {
    absl::MutexLock lock(&mutex_);
    if (windows_ == 0) TakeLocked();
    ++windows_;
  }

  void Close() {
    absl::MutexLock lock(&mutex_);
    if (windows_ == 1) {
      TakeLocked();
      ForgetPeak();
    }
    --windows_;
  }

 private:
  void TakeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const uint64_t peak = PeakNow();
    peaks_.all = std::max(peaks_.all, peak);
    if (windows_ == 0) peaks_.without_files = std::max(peaks_.without_files, peak);
  }

  absl::Mutex mutex_;
  ResidentPeaks peaks_ ABSL_GUARDED_BY(mutex_);
  int windows_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

ResidentPeaks ReadResidentPeaks() { return Peaks::Get().Read(); }

FileWindow::FileWindow() { Peaks::Get().Open(); }

FileWindow::~FileWindow() { Peaks::Get().Close(); }

}  // namespace muster
