#ifndef MUSTER_WORKER_DATA_PARSING_TEMP_FILES_FOR_TESTING_H_
#define MUSTER_WORKER_DATA_PARSING_TEMP_FILES_FOR_TESTING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/files/temp_folder.h"

namespace muster {

// Returns an IDX file of unsigned bytes with these dimensions.
std::string IdxFile(const std::vector<uint32_t>& dimensions, absl::string_view elements);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_PARSING_TEMP_FILES_FOR_TESTING_H_
