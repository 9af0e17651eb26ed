#ifndef MUSTER_COMMON_EXAMINATION_FACT_TEXT_H_
#define MUSTER_COMMON_EXAMINATION_FACT_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "common/text/utf8.h"

namespace muster {

inline constexpr size_t kMostFactBytes = 1000;

// Returns text from elsewhere (errors, paths, names) as a report may hold it: UTF-8, and short
// enough that the coordinator takes the report.
inline std::string FactText(absl::string_view text) {
  const std::string whole = ToUtf8(text);
  return std::string(CutUtf8(whole, kMostFactBytes));
}

}  // namespace muster

#endif  // MUSTER_COMMON_EXAMINATION_FACT_TEXT_H_
