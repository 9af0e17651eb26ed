#ifndef MUSTER_CLIENT_INIT_TABLE_FOR_TESTING_H_
#define MUSTER_CLIENT_INIT_TABLE_FOR_TESTING_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace muster {

// Returns a table of 30 records, which repeat those given.
inline std::string Table(const std::string& header, const std::vector<std::string>& records) {
  std::string text = header.empty() ? "" : absl::StrCat(header, "\n");
  for (int i = 0; i < 30; ++i) absl::StrAppend(&text, records[i % records.size()], "\n");
  return text;
}

}  // namespace muster

#endif  // MUSTER_CLIENT_INIT_TABLE_FOR_TESTING_H_
