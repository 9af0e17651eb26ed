#ifndef MUSTER_COMMON_JOB_DATA_LIBFFM_HEAD_H_
#define MUSTER_COMMON_JOB_DATA_LIBFFM_HEAD_H_

#include <cstdint>
#include <string>

namespace muster {

// The first 64 KiB of a libffm file, unpacked.
struct LibffmHead {
  // Whole lines; 0: the file cannot be read on this machine, or is no libffm data.
  double lines = 0;
  // About how many bytes of the file they are.
  double bytes_in_file = 0;
  // The most that a line has.
  double entries = 0;
  // One more than the largest number of a field.
  uint64_t fields = 0;
};
LibffmHead ReadLibffmHead(const std::string& path);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_DATA_LIBFFM_HEAD_H_
