#ifndef MUSTER_WORKER_STRATEGY_OFFLOADED_FLOATS_H_
#define MUSTER_WORKER_STRATEGY_OFFLOADED_FLOATS_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/partition/memory_bounds.h"

namespace muster {

// Floats that lie in a file instead of memory, zeros at first: for values that are gone through in
// order, again and again.
//
// The file is mapped, so that the floats have addresses and may be read and written at any time.
// Touched pages stay mapped, and count as memory of this process, until Leave. A pass therefore
// goes range by range:
//
//   Enter(range, next)   maps the range, and starts to read the next one from disk
//   …                    the caller works on the range
//   Leave(range)         unmaps it, and starts to write to disk what was changed
//
// The process thus has one range mapped at a time, while the disk reads and writes beside its work.
// Unmapped pages stay in the system's cache as long as nobody else needs that memory; where they do
// not fit, a pass reads and writes every byte once.
//
// The file has no name, so it is gone when the process is gone, however that ends. All its blocks
// are reserved at the start: on a disk that is full later, a write to the mapping would end the
// process by SIGBUS. Thread-safe for distinct ranges.
class OffloadedFloats {
 public:
  // Creates the file in `folder`, which must be on a disk. ResourceExhausted: there is no space.
  // FailedPrecondition: the folder is in memory. Otherwise errors are FileError's.
  static absl::StatusOr<std::unique_ptr<OffloadedFloats>> Create(const std::string& folder,
                                                                 size_t floats);
  ~OffloadedFloats();

  OffloadedFloats(const OffloadedFloats&) = delete;
  OffloadedFloats& operator=(const OffloadedFloats&) = delete;

  // Returns all floats, which begin at a page.
  absl::Span<float> values() const { return {static_cast<float*>(data_), floats_}; }

  // The floats [begin, end).
  struct Range {
    size_t begin = 0;
    size_t end = 0;
  };

  // Does both for all pages that the ranges touch.
  void Enter(Range range, Range next) const;
  void Leave(Range range) const;

 private:
  OffloadedFloats(int descriptor, size_t floats) : descriptor_(descriptor), floats_(floats) {}

  // Reserves the blocks, and maps them. Returns the error number; 0: none.
  int ReserveAndMap();

  const int descriptor_;
  const size_t floats_;
  void* data_ = nullptr;
};

// Checks that the folder's disk has free space for files of so many bytes that are to come while
// the workers change. ResourceExhausted: it has not. Otherwise errors are FileError's.
absl::Status CheckRoomForNewFiles(const std::string& folder, size_t bytes);

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_OFFLOADED_FLOATS_H_
