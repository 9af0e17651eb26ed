#include "common/plan/size/memory_part.h"

#include <algorithm>
#include <cstdio>

#include "common/text/format_bytes.h"

namespace muster {

uint64_t SumOfParts(const std::vector<MemoryPart>& parts) {
  uint64_t bytes = 0;
  for (const MemoryPart& part : parts) bytes += part.bytes;
  return bytes;
}

uint64_t SumOfState(const std::vector<MemoryPart>& parts) {
  uint64_t bytes = 0;
  for (const MemoryPart& part : parts) bytes += part.model_state ? part.bytes : 0;
  return bytes;
}

std::string MemoryTable(const std::vector<MemoryPart>& parts, const std::string& indent) {
  std::vector<MemoryPart> sorted = parts;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const MemoryPart& a, const MemoryPart& b) { return a.bytes > b.bytes; });
  sorted.push_back({.name = "together", .bytes = SumOfParts(parts)});
  size_t width = 0;
  for (const MemoryPart& part : sorted) width = std::max(width, part.name.size());
  std::string table;
  for (const MemoryPart& part : sorted) {
    if (part.bytes == 0) continue;
    char text[160];
    std::snprintf(text, sizeof(text), "%s%-*s %12s\n", indent.c_str(), static_cast<int>(width),
                  part.name.c_str(), FormatBytes(part.bytes).c_str());
    table += text;
  }
  return table;
}

}  // namespace muster
