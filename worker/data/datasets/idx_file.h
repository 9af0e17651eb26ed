#ifndef MUSTER_WORKER_DATA_DATASETS_IDX_FILE_H_
#define MUSTER_WORKER_DATA_DATASETS_IDX_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace muster {

// An array of unsigned bytes as an IDX file holds it: two zero bytes, the element type (0x08), the
// number of dimensions, each dimension as a big-endian 32-bit number, then the elements, row-major.
struct IdxArray {
  std::vector<int64_t> dimensions;
  // One byte per element.
  std::string elements;
};

// Reads an IDX file, plain or packed by gzip, whatever its name. NotFound: the path is missing.
// InvalidArgument: the file is no IDX file of unsigned bytes, or its length is not what its header
// says (names expected and actual bytes). Every message names the path.
absl::StatusOr<IdxArray> ReadIdxFile(const std::string& path);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_DATASETS_IDX_FILE_H_
