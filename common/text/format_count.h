#ifndef MUSTER_COMMON_TEXT_FORMAT_COUNT_H_
#define MUSTER_COMMON_TEXT_FORMAT_COUNT_H_

#include <cstdint>
#include <string>

namespace muster {

// Returns a number of things, exactly: "1,234,567".
std::string FormatCount(uint64_t count);

}  // namespace muster

#endif  // MUSTER_COMMON_TEXT_FORMAT_COUNT_H_
